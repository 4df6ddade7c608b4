"""Data and files that an edit names outside of the state, opened and proven to be what they were.

A state holds the path and a hash of what was there, which must be the same when it is loaded.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.base.hashing import regular
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Add, Ban, Grow
from tokenmill.errors import OrderMismatchError, TokenmillError


def with_files(
    record: RecordedEdit, sources: Mapping[str, TokenDataset], held: Sequence[TokenDataset] = ()
) -> RecordedEdit:
    """Return the edit with what it names; `sources` are data to be taken instead, by name.

    Data that is `held` already is taken if it is what the edit means.
    """
    saved = dict(record.proof)
    opened: Any
    match record.edit:
        case Add() as add:
            same = [data for data in held if _proof_of(data) == saved]
            opened = same[0] if same else _added(add, sources, saved.get("num_tokens"))
            hint = f"give the data itself: load_state_dict(state, sources={{{add.name!r}: data}})"
        case Grow(source):
            whole = sources[source]
            opened = whole.part(0, saved.get("num_tokens", len(whole)))
            hint = "open the data with which the run was resumed"
        case Ban(documents=str(path)):
            content = _content(path)
            proof = {"file": hashlib.blake2b(content, digest_size=16).hexdigest()}
            hint = "put the file there that was used when the run was edited"
            return replace(_proven(record, proof, path, hint), opened=_numbers(content, path))
        case _:
            return record
    return replace(_proven(record, _proof_of(opened), opened.path, hint), opened=opened)


def _proven(record: RecordedEdit, proof: dict[str, Any], path: str, hint: str) -> RecordedEdit:
    """Return the edit with this proof; refuse it if it has another one."""
    for name, value in record.proof.items():
        if proof.get(name) != value:
            raise OrderMismatchError(
                f"cannot resume: {path} is not what it was: the order differs from sample "
                f"{record.at:,} on ({name} {value} -> {proof.get(name)})",
                hint=hint,
            )
    return replace(record, proof=proof)


def _proof_of(data: TokenDataset) -> dict[str, Any]:
    return {"data": data.fingerprint, "num_tokens": data.num_tokens}


def _added(add: Add, sources: Mapping[str, TokenDataset], num_tokens: int | None) -> TokenDataset:
    """The data of an added source; `num_tokens` is what it had, and it may have grown since."""
    data = sources.get(add.name, add.data)
    if not isinstance(data, TokenDataset):
        try:
            data = dataset.open(data)
        except (OSError, TypeError, ValueError, TokenmillError) as error:
            raise OrderMismatchError(
                f"the data of the added source {add.name!r} cannot be opened at {data}: {error}",
                hint=f"give it: load_state_dict(state, sources={{{add.name!r}: data}})",
            ) from error
    first, stop = add.tokens or (0, num_tokens or len(data))
    if stop > len(data):
        raise ValueError(
            f"tokens {first} to {stop} of {data.path} are to be added as {add.name!r}, and it has "
            f"{len(data):,}"
        )
    return data if (first, stop) == (0, len(data)) else data.part(first, stop)


def _content(path: str) -> bytes:
    try:
        with open(regular(path), "rb") as file:  # a pipe or a device may never end
            return file.read()
    except (OSError, ValueError) as error:
        raise OrderMismatchError(
            f"the file of banned documents {path} cannot be read: "
            f"{getattr(error, 'strerror', error)}",
            hint="a state holds only its path and its hash; put the file there that was used when "
            "the run was edited",
        ) from error


def _numbers(content: bytes, path: str) -> np.ndarray:
    """The numbers of documents in a file, one in each line."""
    try:
        numbers = np.array(content.split(), np.int64)
    except (ValueError, OverflowError):
        lines = enumerate(content.splitlines(), 1)
        number, line = next((n, b) for n, b in lines if not re.fullmatch(rb"\s*\d{1,18}\s*", b))
        raise ValueError(
            f"line {number} of {path} is {line[:40].decode(errors='replace')!r}; a file of banned "
            "documents has one number in each line"
        ) from None
    if not len(numbers) or int(numbers.min()) < 0:
        raise ValueError(f"{path} has no numbers of documents, or one that is below 0")
    return numbers
