"""Data and files that an edit names outside of the state, opened and proven to be what they were.

A state holds the path of data that was added and of a file of banned documents, and a hash of what
was there. What is found at the path when the state is loaded must have the same hash.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Add, Ban, Grow
from tokenmill.errors import OrderMismatchError, TokenmillError


def with_files(
    record: RecordedEdit, sources: Mapping[str, TokenDataset], held: Sequence[TokenDataset] = ()
) -> RecordedEdit:
    """Return the edit with its data opened; `sources` are data to be taken instead, by name.

    Data that is `held` already is taken if it is what the edit means.
    """
    match record.edit:
        case Add() as add:
            same = [data for data in held if _proof_of(data) == dict(record.proof)]
            data = same[0] if same else _opened(add, sources, record.proof.get("num_tokens"))
            hint = f"give the data itself: load_state_dict(state, sources={{{add.name!r}: data}})"
            opened = replace(record, edit=replace(add, data=data))
            return _proven(opened, _proof_of(data), f"the data of {add.name!r}, {data.path},", hint)
        case Grow(source) as grow:
            whole = sources[source]
            data = whole.part(0, int(record.proof.get("num_tokens", len(whole))))
            hint = "open the data with which the run was resumed"
            opened = replace(record, edit=replace(grow, data=data))
            return _proven(opened, _proof_of(data), f"the data of {source!r}, {data.path},", hint)
        case Ban(documents=str(path)):
            content = _content(path)
            record.looked_up.documents = _numbers(content, path)
            proof = {"file": hashlib.blake2b(content, digest_size=16).hexdigest()}
            hint = "put the file there that was used when the run was edited"
            return _proven(record, proof, path, hint)
    return record


def _proven(record: RecordedEdit, proof: dict[str, Any], named: str, hint: str) -> RecordedEdit:
    """Return the edit with this proof; refuse it if it has another one."""
    if record.proof and dict(record.proof) != proof:
        raise OrderMismatchError(
            f"cannot resume: {named} is not what it was: the order differs from sample "
            f"{record.at:,} on ({_first_difference(record.proof, proof)})",
            hint=hint,
        )
    return replace(record, proof=proof)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OrderMismatchError(
            f"the file of banned documents {path} cannot be read: {error.strerror}",
            hint="a state holds only its path and its hash; put the file there that was used when "
            "the run was edited",
        ) from error


def _numbers(content: bytes, path: str) -> np.ndarray:
    """The numbers of documents in a file, one in each line."""
    try:
        numbers = np.array(content.split(), np.int64)
    except (ValueError, OverflowError):
        lines = enumerate(content.splitlines(), 1)
        number, line = next((n, line) for n, line in lines if not line.strip().isdigit())
        raise ValueError(
            f"line {number} of {path} is {line[:40].decode(errors='replace')!r}; a file of banned "
            "documents has one number in each line"
        ) from None
    if not len(numbers) or int(numbers.min()) < 0:
        raise ValueError(f"{path} has no numbers of documents, or one that is below 0")
    numbers.sort()
    distinct: np.ndarray = numbers[np.diff(numbers, prepend=-1) > 0]
    return distinct


def _proof_of(data: TokenDataset) -> dict[str, Any]:
    return {"data": data.fingerprint, "num_tokens": data.num_tokens}


def _opened(add: Add, sources: Mapping[str, TokenDataset], num_tokens: int | None) -> TokenDataset:
    """The data of an added source; `num_tokens` is what it had, and it may have grown since."""
    data = sources.get(add.name, add.data)
    if not isinstance(data, TokenDataset):
        try:
            data = dataset.open(data)
        except (OSError, TokenmillError) as error:
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


def _first_difference(saved: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    name = next(name for name in here if saved.get(name) != here[name])
    return f"{name} {saved.get(name)} -> {here[name]}"
