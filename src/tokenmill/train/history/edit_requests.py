"""Edits that are asked for while a run lives: RUN/edit_requests.jsonl, one JSON object a line.

Anyone may add a line at any time, by `tokenmill edits RUN ...` or by hand. A run reads the file
when it starts and at its checkpoints, and takes the lines that are new. How many it has taken is
written in its checkpoints, so that no line is lost or taken twice, whatever is killed when.

    {"kind": "reweight", "weights": {"web": 0.7, "code": 0.3}, "note": "ablation 12"}
    {"kind": "skip", "steps": [120, 130], "note": "loss spike"}

The fields are those of the edits (docs/edits.md). `step` says from which step on, `note` who asks
and why, `asked` when.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import sync_open_file
from tokenmill.base.human import plural
from tokenmill.base.strict_json import parse_object
from tokenmill.edits.edit_values import Edit, edit_from_json
from tokenmill.errors import FormatError

FILE_NAME = "edit_requests.jsonl"


@dataclass(frozen=True)
class EditRequest:
    """One edit that somebody asks for."""

    edit: Edit
    step: int | None = None
    """The step from which it is to hold; None: the next one when it is taken."""
    note: str | None = None
    asked: str | None = None
    """The time."""

    def to_json(self) -> dict[str, Any]:
        more = {"step": self.step, "note": self.note, "asked": self.asked}
        given = {name: value for name, value in more.items() if value is not None}
        return {"kind": self.edit.kind, **self.edit.to_json(), **given}


def parse_request(line: bytes | str, where: str) -> EditRequest:
    """The request of a line; a ValueError or FormatError says what is wrong with it."""
    fields = parse_object(line.encode() if isinstance(line, str) else line, where)
    more = {name: fields.pop(name, None) for name in ("step", "note", "asked")}
    for name, kind in (("step", int), ("note", str), ("asked", str)):
        if more[name] is not None and type(more[name]) is not kind:
            raise ValueError(f"{where}: {name} is {more[name]!r:.100}, not of type {kind.__name__}")
    if "kind" not in fields:
        raise ValueError(f"{where} does not say which kind of edit it is")
    return EditRequest(edit_from_json(fields.pop("kind"), fields), **more)


def new_lines(run_dir: Path, taken: int) -> list[str]:
    """The whole lines after the first `taken`; one that is still being written is left out."""
    path = run_dir / FILE_NAME
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().decode(errors="replace").split("\n")
    if len(lines) < taken:
        raise FormatError(
            f"{path} has {plural(len(lines), 'line')}, and the run has taken {taken:,} before",
            hint="lines are only added to it; put back those that were there, or empty ones",
        )
    return lines[taken:]


def ask(run_dir: Path, requests: Sequence[EditRequest], *, taken: int) -> None:
    """Add requests to the file of a run, after those that it has taken, durably."""
    path = run_dir / FILE_NAME
    before = path.read_bytes() if path.exists() else b"\n" * taken  # it was removed
    text = "".join(json.dumps(request.to_json()) + "\n" for request in requests).encode()
    if before and not before.endswith(b"\n"):
        text = b"\n" + text  # a line by hand, whose end is missing
    with path.open("ab") as file:
        file.write(text if path.exists() and file.tell() else before + text)
        sync_open_file(file)
