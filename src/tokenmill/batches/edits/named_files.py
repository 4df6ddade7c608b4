"""What an edit names outside of the state, opened, and proven to be what it was.

A state holds the path of data that was added and of a file of banned documents, and a hash of what
was there. What is found at the path when the state is loaded must have the same hash.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmill import dataset
from tokenmill.batches.edits.edit_record import RecordedEdit
from tokenmill.batches.edits.edit_values import Add, Ban
from tokenmill.dataset import TokenDataset
from tokenmill.errors import OrderMismatchError, TokenmillError


def with_files(record: RecordedEdit, sources: Mapping[str, TokenDataset]) -> RecordedEdit:
    """The edit with its data opened; `sources` are data that is to be taken instead, by name."""
    edit = record.edit
    if isinstance(edit, Add):
        edit = replace(edit, data=_opened(edit, sources))
        proof = {"data": edit.data.fingerprint, "num_tokens": edit.data.num_tokens}
        hint = f"give the data itself: load_state_dict(state, sources={{{edit.name!r}: data}})"
        what = f"the data of {edit.name!r}, {edit.data.path},"
    elif isinstance(edit, Ban) and isinstance(edit.documents, str):
        content = Path(edit.documents).read_bytes()
        proof = {"file": hashlib.blake2b(content, digest_size=16).hexdigest()}
        what, hint = edit.documents, "put the file there that was used when the run was edited"
    else:
        return record
    if record.proof and dict(record.proof) != proof:
        raise OrderMismatchError(
            f"cannot resume: {what} is not what it was: the order differs from sample "
            f"{record.at:,} on ({_first_difference(record.proof, proof)})",
            hint=hint,
        )
    return replace(record, edit=edit, proof=proof)


def _opened(add: Add, sources: Mapping[str, TokenDataset]) -> TokenDataset:
    data = sources.get(add.name, add.data)
    if isinstance(data, TokenDataset):
        return data
    try:
        return dataset.open(data)
    except (OSError, TokenmillError) as error:
        raise OrderMismatchError(
            f"the data of the added source {add.name!r} cannot be opened at {data}: {error}",
            hint=f"give it: load_state_dict(state, sources={{{add.name!r}: data}})",
        ) from error


def _first_difference(saved: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    name = next(name for name in here if saved.get(name) != here[name])
    return f"{name} {saved.get(name)} -> {here[name]}"
