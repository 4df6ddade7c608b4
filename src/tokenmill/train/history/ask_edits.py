"""`tokenmill edits`: what was asked of a run and what became of it; and one more request, checked.

A request is tried on the loader of the last checkpoint, after those that wait before it, so that
a wrong one is refused here and not by the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenmill.edits.edit_values import Edit
from tokenmill.errors import NotADatasetError, TokenmillError
from tokenmill.train.history.edit_requests import EditRequest, ask, new_lines, parse_request
from tokenmill.train.history.edits_file import now, read_entries
from tokenmill.train.history.run_folder import latest, read_state, requests_taken
from tokenmill.train.history.run_loader import open_run


def ask_for(
    run_dir: Path, edits: Sequence[Edit], *, step: int | None, note: str | None
) -> list[EditRequest]:
    """Ask a run for these edits, if it can make them."""
    _refuse_no_run(run_dir)
    requests = [EditRequest(edit, step, note, now()) for edit in edits]
    if latest(run_dir) is not None:
        loader = open_run(run_dir).loader
        for waiting in waiting_lines(run_dir):
            with suppress(ValueError, TypeError, OSError, TokenmillError):  # the run will say so
                before = parse_request(waiting, "a request")
                loader.edit(before.edit, at=before.step, note=before.note)
        for request in requests:
            loader.edit(request.edit, at=request.step, note=request.note)
    ask(run_dir, requests, taken=_taken(run_dir))
    return requests


def waiting_lines(run_dir: Path) -> list[str]:
    """The requests that the last checkpoint of a run has not taken."""
    return [line for line in new_lines(run_dir, _taken(run_dir)) if line.strip()]


def _taken(run_dir: Path) -> int:
    newest = latest(run_dir)
    return 0 if newest is None else requests_taken(read_state(newest))


def edits_of_run(run_dir: Path) -> dict[str, Any]:
    """The JSON of `tokenmill edits RUN --json`: what was taken or refused, and what waits."""
    _refuse_no_run(run_dir)
    return {"edits": read_entries(run_dir), "waiting": waiting_lines(run_dir)}


def lines_of_edits(edits: Mapping[str, Any]) -> Iterator[str]:
    """The same in words."""
    for entry in edits["edits"]:
        if "refused" in entry:
            yield f"refused at step {entry['step']:,}: {entry['refused']}"
            yield f"    {entry['request']}"
            continue
        asked = f"asked {entry['asked']}, " if "asked" in entry else ""
        yield entry["changed"]
        yield f"    {asked}taken {entry['taken']} at step {entry['step']:,}"
        if "note" in entry:
            yield f"    note: {entry['note']}"
    for line in edits["waiting"]:
        yield f"waits for the next checkpoint or start of the run: {line}"


def _refuse_no_run(run_dir: Path) -> None:
    if not (run_dir / "config.json").is_file():
        raise NotADatasetError(
            f"{run_dir} is not the folder of a run: it has no config.json",
            hint="name the folder of a run, such as runs/gpt; `tokenmill train` makes one",
        )
