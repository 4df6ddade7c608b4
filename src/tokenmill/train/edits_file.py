"""RUN/edits.jsonl: the edits that are asked of a run, one JSON object per line.

Anyone may add a line at any time, by `tokenmill edits RUN ...` or by hand. Lines are only added. A
run reads the new ones when it starts and at its checkpoints. What became of each line is in the
checkpoint, so that no line is lost or taken twice, whenever the run is killed.

    {"kind": "reweight", "weights": {"web": 0.7, "code": 0.3}, "note": "ablation 12"}
    {"kind": "skip", "steps": [120, 130], "note": "loss spike"}

The fields are those of the edits (docs/edits.md). `step` is the step from which the edit holds, by
default the next one when it is taken; `note` says who asks and why, `asked` when.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tokenmill.base.atomic import sync_open_file
from tokenmill.base.human import plural
from tokenmill.base.strict_json import parse_object
from tokenmill.edits.edit_values import Edit, edit_from_json
from tokenmill.errors import FormatError, NotADatasetError, TokenmillError
from tokenmill.train.checkpoint import latest, read_state
from tokenmill.train.run_loader import open_run

FILE_NAME = "edits.jsonl"
REFUSALS = (ValueError, TypeError, OSError, TokenmillError)
"""What a wrong line raises when it is applied."""
RANGES = ("steps", "samples", "tokens")
NOT_WORDS = ("kind", "at", "step", "note", "asked", "read", "read_at_step", "fingerprint", "proof")


class Editable(Protocol):
    """A BatchLoader or a TorchLoader."""

    def edit(self, *edits: Edit, at: int | None = None, note: str | None = None) -> None: ...


def now() -> str:
    """Return the time as the file has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_lines(run_dir: Path, num_read: int) -> list[str]:
    """Return all whole lines that are not empty, at least the `num_read` that were read before."""
    path = run_dir / FILE_NAME
    content = path.read_bytes().decode(errors="replace") if path.exists() else ""
    *whole, _ = content.split("\n")  # the last one may still be being written
    lines = [line for line in whole if line.strip()]
    if len(lines) < num_read:
        raise FormatError(
            f"{path} has {plural(len(lines), 'edit')}, and the run has read {num_read:,} before",
            hint="lines are only added to this file; put back those that were there",
        )
    return lines


def apply_line(loader: Editable, line: str, where: str) -> dict[str, Any]:
    """Make the edit of a line, or raise one of REFUSALS; return the fields of the line."""
    request = parse_object(line.encode(), where)
    step = request.get("step")
    if "kind" not in request or (step is not None and type(step) is not int):
        raise ValueError(f"{where} needs the kind of the edit; its step, if any, is a whole number")
    fields = {
        name: value for name, value in request.items() if name not in ("step", "note", "asked")
    }
    edit = edit_from_json(fields.pop("kind"), fields)
    loader.edit(edit, at=step, note=request.get("note"))
    return request


def ask_for(
    run_dir: Path, edits: Sequence[Edit], *, step: int | None, note: str | None
) -> list[dict[str, Any]]:
    """Add these edits to the file, if the run can make them; return the new lines as objects.

    They are tried on the loader of the last checkpoint, after the lines that wait before them.
    """
    waiting = edits_of_run(run_dir)["waiting"]
    about = {"step": step, "note": note, "asked": now()}
    about = {name: value for name, value in about.items() if value is not None}
    requests = [{"kind": edit.kind, **edit.to_json(), **about} for edit in edits]
    lines = [json.dumps(request) for request in requests]
    if latest(run_dir) is not None:
        loader = open_run(run_dir).loader
        for line in waiting:
            with suppress(*REFUSALS):  # the run will say so
                apply_line(loader, line, "a request")
        for line in lines:
            apply_line(loader, line, "the request")
    _add_lines(run_dir / FILE_NAME, lines)
    return requests


def _add_lines(path: Path, lines: Sequence[str]) -> None:
    with path.open("ab+") as file:
        file.seek(0)
        before = file.read()
        if before and not before.endswith(b"\n"):  # a line by hand, whose end is missing
            file.write(b"\n")
        file.write("".join(f"{line}\n" for line in lines).encode())
        sync_open_file(file)


def edits_of_run(run_dir: Path) -> dict[str, Any]:
    """Return what `tokenmill edits RUN --json` prints.

    `edits` are the lines that the last checkpoint had read, with what became of them, and data
    that had grown when the run resumed; `waiting` are the lines that it had not read.
    """
    if not (run_dir / "config.json").is_file():
        raise NotADatasetError(
            f"{run_dir} is not the folder of a run: it has no config.json",
            hint="name the folder of a run, such as runs/gpt; `tokenmill train` makes one",
        )
    newest = latest(run_dir)
    if newest is None:
        return {"edits": [], "waiting": read_lines(run_dir, 0)}
    state = read_state(newest)
    read = read_entries(state)
    rows = state["config"]["global_batch_size"]
    grown = [
        {**edit, "read_at_step": edit["at"] // rows}
        for edit in state["loader"].get("edits", [])
        if edit["kind"] == "grow"
    ]
    entries = sorted([*grown, *read], key=lambda entry: entry["read_at_step"])
    return {"edits": entries, "waiting": read_lines(run_dir, len(read))[len(read) :]}


def read_entries(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a checkpoint says about each line that was read: one entry per line.

    The fields of the line, or the `line` and why it was `refused`; and when it was read.
    """
    entries = state["edits"]
    if not all(isinstance(e, dict) and type(e.get("read_at_step")) is int for e in entries):
        raise FormatError(f"the state.json of this checkpoint has edits {entries!r:.100}")
    return list(entries)


def lines_of_edits(edits: Mapping[str, Any]) -> Iterator[str]:
    """Yield the edits of `edits_of_run` as lines of text."""
    for entry in edits["edits"]:
        step = entry["read_at_step"]
        if "refused" in entry:
            yield f"refused at step {step:,}: {entry['refused']}"
            yield f"    {entry['line']}"
            continue
        yield words_of(entry, entry.get("step", step))
        if "read" in entry:
            asked = f"asked {entry['asked']}, " if "asked" in entry else ""
            yield f"    {asked}taken {entry['read']} at step {step:,}"
        if "note" in entry:
            yield f"    note: {entry['note']}"
    for line in edits["waiting"]:
        yield f"waits for the next checkpoint or start of the run: {line}"


def words_of(edit: Mapping[str, Any], step: int | None = None) -> str:
    """Say what an edit changes from a step on; a skip says itself where it is.

    >>> words_of({"kind": "ban", "documents": [3, [11, 13]], "source": "web"}, 20)
    'from step 20 on: ban, documents [3, [11, 13]], source web'
    """
    parts = [edit["kind"]]
    for name, value in edit.items():
        if name in RANGES:
            parts.append(f"{name} {value[0]:,} to {value[1] - 1:,}")
        elif isinstance(value, dict) and name not in NOT_WORDS:
            parts.append(f"{name} {', '.join(f'{key}={of}' for key, of in value.items())}")
        elif name not in NOT_WORDS:
            parts.append(f"{name} {value}")
    words = ", ".join(parts)
    return words if step is None or edit["kind"] == "skip" else f"from step {step:,} on: {words}"
