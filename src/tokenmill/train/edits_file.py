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
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import sync_open_file
from tokenmill.base.human import plural
from tokenmill.base.strict_json import parse_object
from tokenmill.edits.edit_values import Edit, edit_from_json
from tokenmill.errors import FormatError

FILE_NAME = "edits.jsonl"


@dataclass(frozen=True)
class EditRequest:
    """One edit that is asked of a run."""

    edit: Edit
    step: int | None = None
    """The step from which it holds; None: the next one when it is taken."""
    note: str | None = None
    asked: str | None = None
    """The time."""

    def to_json(self) -> dict[str, Any]:
        optional = {"step": self.step, "note": self.note, "asked": self.asked}
        fields = {name: value for name, value in optional.items() if value is not None}
        return {"kind": self.edit.kind, **self.edit.to_json(), **fields}


@dataclass(frozen=True)
class Outcome:
    """What a run made of one line."""

    step: int
    """Where the run was when it read the line."""
    time: str
    refused: str | None = None
    """Why the edit was not made; None: it was."""


def now() -> str:
    """Return the time as the file has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_request(line: str, where: str) -> EditRequest:
    """Return the request of a line; a ValueError or FormatError says what is wrong with it."""
    fields = parse_object(line.encode(), where)
    optional = {name: fields.pop(name, None) for name in ("step", "note", "asked")}
    for name, kind in (("step", int), ("note", str), ("asked", str)):
        value = optional[name]
        if value is not None and type(value) is not kind:
            raise ValueError(f"{where}: {name} is {value!r:.100}, not of type {kind.__name__}")
    if "kind" not in fields:
        raise ValueError(f"{where} does not say which kind of edit it is")
    return EditRequest(edit_from_json(fields.pop("kind"), fields), **optional)


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


def add_lines(run_dir: Path, requests: Iterable[EditRequest]) -> None:
    """Add requests to the file, durably."""
    path = run_dir / FILE_NAME
    lines = [json.dumps(request.to_json()) + "\n" for request in requests]
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        lines.insert(0, "\n")  # after a line by hand, whose end is missing
    with path.open("ab") as file:
        file.write("".join(lines).encode())
        sync_open_file(file)


def outcomes_to_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the list for a checkpoint."""
    return [asdict(outcome) for outcome in outcomes]


def outcomes_of(state: Mapping[str, Any]) -> list[Outcome]:
    """Return what a run had made of each line at a checkpoint."""
    try:
        return [Outcome(**fields) for fields in state["edits"]]
    except TypeError:
        raise FormatError(
            f"the state.json of this checkpoint has edits {state['edits']!r:.100}"
        ) from None
