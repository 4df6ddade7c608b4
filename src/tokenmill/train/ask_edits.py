"""`tokenmill edits`: what was asked of a run and what became of it; and one more request, checked.

A request is tried on the loader of the last checkpoint, after those that wait before it, so that
a wrong one is refused here and not by the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.edits.edit_values import Edit
from tokenmill.errors import NotADatasetError, TokenmillError
from tokenmill.train.edit_words import words_of
from tokenmill.train.edits_file import (
    EditRequest,
    Outcome,
    add_lines,
    now,
    outcomes_of,
    parse_request,
    read_lines,
)
from tokenmill.train.run_folder import latest, read_state
from tokenmill.train.run_loader import open_run


@dataclass(frozen=True)
class AskedEdits:
    """The lines of a run's edits.jsonl, and what became of the first of them."""

    lines: list[str]
    outcomes: list[Outcome]
    grown: list[dict[str, Any]]
    """Edits that nobody asked for: data that had grown when the run resumed."""

    @property
    def waiting(self) -> list[str]:
        """The lines that the last checkpoint has not read."""
        return self.lines[len(self.outcomes) :]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenmill edits RUN --json`."""
        read = zip(self.lines, self.outcomes, strict=False)
        entries = [*self.grown, *(_entry(line, outcome) for line, outcome in read)]
        entries.sort(key=lambda entry: entry["read_at_step"])
        return {"edits": entries, "waiting": self.waiting}


def ask_for(
    run_dir: Path, edits: Sequence[Edit], *, step: int | None, note: str | None
) -> list[EditRequest]:
    """Ask a run for these edits, if it can make them."""
    asked = asked_edits(run_dir)
    requests = [EditRequest(edit, step, note, now()) for edit in edits]
    if latest(run_dir) is not None:
        loader = open_run(run_dir).loader
        for line in asked.waiting:
            with suppress(ValueError, TypeError, OSError, TokenmillError):  # the run will say so
                before = parse_request(line, "a request")
                loader.edit(before.edit, at=before.step, note=before.note)
        for request in requests:
            loader.edit(request.edit, at=request.step, note=request.note)
    add_lines(run_dir, requests)
    return requests


def asked_edits(run_dir: Path) -> AskedEdits:
    """Return the edits that were asked of a run."""
    if not (run_dir / "config.json").is_file():
        raise NotADatasetError(
            f"{run_dir} is not the folder of a run: it has no config.json",
            hint="name the folder of a run, such as runs/gpt; `tokenmill train` makes one",
        )
    newest = latest(run_dir)
    if newest is None:
        return AskedEdits(read_lines(run_dir, 0), [], [])
    state = read_state(newest)
    outcomes = outcomes_of(state)
    edits = state["loader"].get("edits", [])
    grown = [_grown(edit, state["config"]) for edit in edits if edit["kind"] == "grow"]
    return AskedEdits(read_lines(run_dir, len(outcomes)), outcomes, grown)


def _grown(edit: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Data that had grown, as an entry."""
    step = edit["at"] // config["global_batch_size"]
    return {**edit, "changed": words_of(edit, step), "read_at_step": step}


def _entry(line: str, outcome: Outcome) -> dict[str, Any]:
    """A line that was read, and what became of it."""
    read = {"read": outcome.time, "read_at_step": outcome.step}
    if outcome.refused is not None:
        return {"line": line, "refused": outcome.refused, **read}
    fields = parse_request(line, "a line of edits.jsonl").to_json()
    first = fields.get("step", outcome.step)
    if "steps" in fields:  # a skip says itself where it is
        first = fields["steps"][0]
    return {**fields, "changed": words_of(fields, first), **read}


def lines_of_edits(edits: Mapping[str, Any]) -> Iterator[str]:
    """Yield the edits of `AskedEdits.to_json` in words."""
    for entry in edits["edits"]:
        step = entry["read_at_step"]
        if "refused" in entry:
            yield f"refused at step {step:,}: {entry['refused']}"
            yield f"    {entry['line']}"
            continue
        yield entry["changed"]
        if "read" in entry:
            asked = f"asked {entry['asked']}, " if "asked" in entry else ""
            yield f"    {asked}taken {entry['read']} at step {step:,}"
        if "note" in entry:
            yield f"    note: {entry['note']}"
    for line in edits["waiting"]:
        yield f"waits for the next checkpoint or start of the run: {line}"
