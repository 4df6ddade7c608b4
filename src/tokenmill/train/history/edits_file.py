"""RUN/edits.jsonl: all edits of a run, for people; one line each, also for those refused.

    {"step": 40, "changed": "from step 40 on, weights web 0.7, code 0.3", "note": "ablation 12",
     "asked": "2026-11-16T17:20:04Z", "taken": "2026-11-16T17:31:40Z", "kind": "reweight", ...}

`step` is where the run was when it took the edit. The file is written from what the run holds: the
edits in the state of its loader are what counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import write_atomically
from tokenmill.base.strict_json import parse_object
from tokenmill.errors import FormatError
from tokenmill.train.history.edit_words import words_of

FILE_NAME = "edits.jsonl"
Entry = dict[str, Any]


def now() -> str:
    """The time, as the file has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_entries(run_dir: Path) -> list[Entry]:
    """The lines of the file; none if there is no file."""
    path = run_dir / FILE_NAME
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [_entry(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]


def _entry(line: bytes, where: str) -> Entry:
    entry = parse_object(line, where)
    texts = ("refused", "request") if "refused" in entry else ("changed", "kind")
    if type(entry.get("step")) is not int or any(
        not isinstance(entry.get(name), str) for name in (*texts, "taken")
    ):
        raise FormatError(f"{where} is not the line of an edit", hint="remove this line")
    return entry


def write_entries(run_dir: Path, entries: Iterable[Entry]) -> None:
    """Replace the file."""
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    write_atomically(run_dir / FILE_NAME, lines.encode())


def refused(line: str, why: str, step: int) -> Entry:
    """The entry of a request that was refused."""
    return {"step": step, "refused": why, "taken": now(), "request": line}


def entries_of(
    edits: Sequence[Mapping[str, Any]],
    known: Sequence[Entry],
    *,
    step: int,
    batch_size: int,
    asked: str | None = None,
) -> list[Entry]:
    """The entries of all edits of a loader, and of what was refused up to this step.

    An edit that is `known` keeps its entry; the others are taken now.
    """
    by_edit = {_identity(entry): entry for entry in known if "refused" not in entry}
    times = {"asked": asked, "taken": now()} if asked else {"taken": now()}
    made: list[Entry] = []
    for edit in edits:
        new = {"step": step, "changed": words_of(edit, batch_size), **times}
        made.append({**by_edit.get(_identity(edit), new), **edit})
    old = [entry for entry in known if "refused" in entry and entry["step"] <= step]
    return sorted([*made, *old], key=lambda entry: entry["step"])


def _identity(edit: Mapping[str, Any]) -> str:
    """An edit without what is not part of it, as text."""
    others = ("step", "changed", "asked", "taken", "fingerprint")
    return json.dumps({k: v for k, v in edit.items() if k not in others}, sort_keys=True)
