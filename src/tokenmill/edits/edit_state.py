"""Edits of a run that is not running: a saved state in, a state with more edits out."""

from collections.abc import Mapping
from typing import Any

from tokenmill.base.suggest import one_of
from tokenmill.edits.edit_record import (
    RecordedEdit,
    edits_from_json,
    edits_to_json,
    merge_edits,
    record_edits,
    refuse_past,
)
from tokenmill.edits.edit_values import Add, Ban, Cap, Edit
from tokenmill.edits.named_files import with_files


def edit_state(
    state: Mapping[str, Any], *edits: Edit, at: int | None = None, note: str | None = None
) -> dict[str, Any]:
    """A saved state with more edits, which hold from sample `at` on, by default from where it is.

    `at` counts samples, and so does a Skip: a state does not say how many a step has. Names of
    sources are checked here, what depends on the data when a loader loads the state.
    """
    samples = state["samples"]
    fingerprint = state["order_fingerprint"]
    so_far = edits_from_json(state.get("edits", []), fingerprint, samples)
    records = record_edits(edits, samples if at is None else at, note)
    refuse_past(records, samples)
    merged = merge_edits(so_far, [with_files(record, {}) for record in records])
    _refuse_unknown_names(state["sources"], merged)
    return {**state, "edits": edits_to_json(fingerprint, merged)}


def _refuse_unknown_names(sources: list[str], records: tuple[RecordedEdit, ...]) -> None:
    known = list(sources)
    for record in records:
        named: list[str] = []
        match record.edit:
            case Add(name=name):
                known.append(name)
            case Cap(epochs=epochs):
                named = list(epochs)
            case Ban(source=str(name)):
                named = [name]
        named += getattr(record.edit, "weights", {})
        for name in named:
            one_of("source", name, known)
