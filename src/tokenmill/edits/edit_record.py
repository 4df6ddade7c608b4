"""The edits of a run as a list: each with the sample from which it holds, a note and a fingerprint.

Edits hold in the order of their samples; of two at one sample, the one that was given first is
first. Each is applied to the order that those before it have made. The fingerprint of an edit is a
hash of the fingerprint before it (of the order without edits, for the first one) and of the edit:
equal for two runs only if they had the same order up to here.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from tokenmill.edits.edit_values import AnyEdit, Edit, Grow, Skip, edit_from_json
from tokenmill.edits.token_ranges import NO_TOKENS, TokenRanges
from tokenmill.errors import OrderMismatchError

MOST_BYTES = 1024
"""Of one edit in a state."""
_OUTSIDE = ("at", "kind", "note", "fingerprint", "proof")


@dataclass
class BanLookup:
    """What was looked up for a ban; kept, since edits are applied again with each new one."""

    documents: np.ndarray | None = None
    """The documents that its file names."""
    num_tokens: int = -1
    """Tokens of the data in which `tokens` were found."""
    tokens: TokenRanges = NO_TOKENS


@dataclass(frozen=True)
class RecordedEdit:
    """An edit, and the sample from which it holds."""

    at: int
    edit: AnyEdit
    note: str | None = None
    """Who asked for it, and why."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """Of an edit that names files: what was in them."""
    looked_up: BanLookup = field(default_factory=BanLookup, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """All of it but the fingerprint, which depends on the edits before."""
        proof = {"proof": dict(self.proof)} if self.proof else {}
        note = {} if self.note is None else {"note": self.note}
        return {"at": self.at, "kind": self.edit.kind, **self.edit.to_json(), **proof, **note}

    @property
    def identity(self) -> str:
        """All that the order depends on, as text: contents instead of paths, and no note."""
        said = self.to_json()
        said.pop("note", None)
        if self.proof:
            said = {name: said[name] for name in said if name not in ("data", "documents")}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))


def record_edits(
    edits: Sequence[Edit],
    at: int,
    note: str | None,
    *,
    steps_begin_at: Callable[[int], int] | None = None,
) -> list[RecordedEdit]:
    """These edits from a sample on; a skip says itself where it is.

    `steps_begin_at` gives the first sample of a step, where steps are known.
    """
    for edit in edits:
        if not isinstance(edit, Edit):
            names = ", ".join(kind.__name__ for kind in get_args(Edit))
            raise TypeError(f"an edit is {edit!r:.100}; it must be one of: {names}")
    if note is not None and not isinstance(note, str):
        raise TypeError(f"note is {note!r:.100}; it must be a text")
    records = []
    for edit in edits:
        if isinstance(edit, Skip):
            edit = edit.in_samples(steps_begin_at)
            records.append(RecordedEdit(edit.first_sample, edit, note))
        else:
            records.append(RecordedEdit(at, edit, note))
    for record in records:
        _refuse_large(record)
    return records


def refuse_past(records: Iterable[RecordedEdit], samples: int) -> None:
    """Refuse edits from a sample on that has been served."""
    for record in records:
        if record.at < samples:
            raise ValueError(
                f"the {record.edit.kind} is at sample {record.at:,}, which is in the past: the "
                f"samples before {samples:,} have been served"
            )


def merge_edits(
    edits: Iterable[RecordedEdit], more: Iterable[RecordedEdit]
) -> tuple[RecordedEdit, ...]:
    """All of them in the order of their samples; at one sample, `more` come last."""
    return tuple(sorted([*edits, *more], key=lambda record: record.at))


def chain(fingerprint: str, edits: Iterable[RecordedEdit]) -> list[str]:
    """The fingerprint of the order after each edit; `fingerprint` is that of the order without."""
    chained = []
    for record in edits:
        text = f"{fingerprint}\n{record.identity}"
        fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        chained.append(fingerprint)
    return chained


def edits_to_json(fingerprint: str, edits: Sequence[RecordedEdit]) -> list[dict[str, Any]]:
    """The list for a state."""
    chained = chain(fingerprint, edits)
    return [{**e.to_json(), "fingerprint": f} for e, f in zip(edits, chained, strict=True)]


def edits_from_json(saved: Any, fingerprint: str, samples: int) -> tuple[RecordedEdit, ...]:
    """The edits of a saved state, whose past is proven.

    `fingerprint` is that of the order without edits. Those at or after `samples`, where the state
    was saved, may have been changed: nothing of them was served.
    """
    if not isinstance(saved, list):
        raise _wrong(f"its edits are {saved!r:.100}, not a list")
    edits = tuple(_edit_from_json(edit) for edit in saved)
    if [record.at for record in edits] != sorted(record.at for record in edits):
        raise _wrong("its edits are not in the order of their samples")
    chained = chain(fingerprint, edits)
    for said, record, computed in zip(saved, edits, chained, strict=True):
        if record.at < samples and said.get("fingerprint") != computed:
            raise OrderMismatchError(
                f"cannot resume: the order differs from sample {record.at:,} on: the edit there "
                f"({record.edit.kind}) has fingerprint {computed}, the state says "
                f"{str(said.get('fingerprint'))[:32]}",
                hint="an edit before the saved sample was changed; take the state as it was saved",
            )
    return edits


def _edit_from_json(saved: Any) -> RecordedEdit:
    if not isinstance(saved, Mapping) or type(saved.get("at")) is not int or saved["at"] < 0:
        raise _wrong(f"one of its edits is {saved!r:.200}")
    fields = {name: value for name, value in saved.items() if name not in _OUTSIDE}
    kind = str(saved.get("kind"))
    edit: AnyEdit
    try:
        edit = (
            Grow(str(fields.get("source"))) if kind == Grow.kind else edit_from_json(kind, fields)
        )
    except ValueError as error:
        raise _wrong(f"its edit at sample {saved['at']} is wrong: {error}") from error
    return RecordedEdit(saved["at"], edit, saved.get("note"), saved.get("proof") or {})


def _wrong(why: str) -> OrderMismatchError:
    return OrderMismatchError(
        f"cannot resume: {why}", hint="pass what loader.state_dict() returned"
    )


def _refuse_large(record: RecordedEdit) -> None:
    size = len(json.dumps(record.to_json()).encode())
    if size > MOST_BYTES:
        hint = (
            'write the numbers into a file, one a line, and ban that: Ban(documents="banned.txt")'
            if record.edit.kind == "ban"
            else "a shorter note, or shorter names"
        )
        raise ValueError(
            f"the {record.edit.kind} has {size:,} bytes as JSON, and a state holds at most "
            f"{MOST_BYTES:,} of an edit\n\nhint: {hint}"
        )
