"""The edits of a run as a list: each with the sample from which it holds, a note and a fingerprint.

Of two edits at one sample, the one that was given first is first. A fingerprint is a hash of the
one before it and of the edit, so it is equal for two runs only if they had the same order up to
here: docs/guides/edits.md.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shown
from typing import Any

from tokenmill.batches.state import not_a_state
from tokenmill.edits.edit_values import KINDS, Edit, Grow, Skip, edit_from_json, whole_number
from tokenmill.errors import OrderMismatchError

MAX_BYTES = 1024
"""Of one edit in a state."""
_NOT_FIELDS = ("at", "kind", "note", "fingerprint", "proof")


@dataclass(frozen=True)
class RecordedEdit:
    """An edit, and the sample from which it holds."""

    at: int
    edit: Edit | Grow
    note: str | None = None
    """Who asked for it, and why."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """Of an edit that names files: what was in them."""
    opened: Any = field(default=None, compare=False, repr=False)
    """What it names: a TokenDataset, or an array of the documents in a file."""

    def __post_init__(self) -> None:
        kind = self.edit.kind
        whole_number(f"the sample of the {kind}", self.at)
        if self.note is not None and not isinstance(self.note, str):
            raise TypeError(f"note is {shown(self.note)}; it must be a text")
        if not isinstance(self.proof, Mapping):
            raise ValueError(f"the proof of the {kind} is {shown(self.proof)}")
        size = len(json.dumps({**self.to_json(), "proof": None}).encode())
        if size > MAX_BYTES:
            hint = "a shorter note, or shorter names"
            if kind == "ban":
                hint = 'write the numbers into a file, one a line: Ban(documents="banned.txt")'
            raise ValueError(
                f"the {kind} has {size:,} bytes as JSON, and a state holds at most {MAX_BYTES:,} "
                f"of an edit\n\nhint: {hint}"
            )

    def to_json(self) -> dict[str, Any]:
        """All of it but the fingerprint, which depends on the edits before."""
        proof = {"proof": dict(self.proof)} if self.proof else {}
        note = {} if self.note is None else {"note": self.note}
        return {"at": self.at, "kind": self.edit.kind, **self.edit.to_json(), **proof, **note}

    @functools.cached_property
    def identity(self) -> str:
        """All that the order depends on, as text: contents instead of paths, and no note."""
        said = self.to_json()
        paths = ("data", "documents") if self.proof else ()
        for name in ("note", *paths):
            said.pop(name, None)
        return json.dumps(said, sort_keys=True, separators=(",", ":"))


def record_edits(
    edits: Sequence[Edit],
    at: int,
    note: str | None,
    *,
    served: int,
    steps_begin_at: Callable[[int], int] | None = None,
) -> list[RecordedEdit]:
    """Record these edits from a sample on; a skip says itself where it is.

    Those before sample `served` are refused. `steps_begin_at` gives the first sample of a step,
    where steps are known.
    """
    records = []
    for edit in edits:
        if not isinstance(edit, Edit):
            names = ", ".join(kind.__name__ for kind in KINDS.values())
            raise TypeError(f"an edit is {shown(edit)}; it must be one of: {names}")
        first = whole_number(f"the sample of the {edit.kind}", at)
        if isinstance(edit, Skip):
            edit = Skip(samples=edit.in_samples(steps_begin_at))
            first, _ = edit.in_samples(None)
        if first < served:
            raise ValueError(
                f"the {edit.kind} is at sample {first:,}, which is in the past: the samples "
                f"before {served:,} have been served"
            )
        records.append(RecordedEdit(first, edit, note))
    return records


def merge_edits(
    edits: Iterable[RecordedEdit], more: Iterable[RecordedEdit]
) -> tuple[RecordedEdit, ...]:
    """All of them in the order of their samples; at one sample, `more` come last."""
    return tuple(sorted([*edits, *more], key=lambda record: record.at))


def edits_to_json(fingerprint: str, edits: Iterable[RecordedEdit]) -> list[dict[str, Any]]:
    """The list for a state; `fingerprint` is that of the order without edits."""
    saved = []
    for record in edits:
        text = f"{fingerprint}\n{record.identity}"
        fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        saved.append({**record.to_json(), "fingerprint": fingerprint})
    return saved


def edits_from_json(saved: Any, fingerprint: str, samples: int) -> tuple[RecordedEdit, ...]:
    """The edits of a saved state, whose past is proven.

    `fingerprint` is that of the order without edits. Those at or after `samples`, where the state
    was saved, may have been changed: nothing of them was served.
    """
    if not isinstance(saved, list) or not all(isinstance(edit, Mapping) for edit in saved):
        raise not_a_state(f"the edits of the state are {shown(saved)}, not a list of edits")
    edits = tuple(map(_edit_from_json, saved))
    if [record.at for record in edits] != sorted(record.at for record in edits):
        raise not_a_state("the edits of the state are not in the order of their samples")
    computed = edits_to_json(fingerprint, edits)
    for said, now in zip(saved, computed, strict=True):
        if now["at"] < samples and said.get("fingerprint") != now["fingerprint"]:
            raise OrderMismatchError(
                f"cannot resume: the order differs from sample {now['at']:,} on: the edit there "
                f"({now['kind']}) has fingerprint {now['fingerprint']}, the state says "
                f"{shown(said.get('fingerprint'))}",
                hint="an edit before the saved sample was changed; take the state as it was saved",
            )
    return edits


def _edit_from_json(saved: Mapping[str, Any]) -> RecordedEdit:
    fields = {name: value for name, value in saved.items() if name not in _NOT_FIELDS}
    kind = saved.get("kind")
    try:
        edit = Grow(**fields) if kind == Grow.kind else edit_from_json(str(kind), fields)
        return RecordedEdit(saved.get("at", -1), edit, saved.get("note"), saved.get("proof", {}))
    except (TypeError, ValueError) as error:
        raise not_a_state(f"an edit of the state, {shown(saved)}, is wrong: {error}") from error
