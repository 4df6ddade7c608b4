"""RUN/edits.jsonl: the edits that are asked of a run, one JSON object per line.

    {"kind": "skip", "steps": [120, 130], "note": "loss spike"}

The fields are those of the edit (edits.md), and `step`, from which it holds, by default the
next one when it is taken; `note`, who asks and why; `asked`, when. training.md says when lines
are read. What became of each is in the checkpoint, so that none is lost or taken twice.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import sync_open_file
from tokenmill.base.human import plural
from tokenmill.base.strict_json import parse_object
from tokenmill.batches.loader import BatchLoader
from tokenmill.edits.edit_values import Edit, edit_from_json
from tokenmill.errors import FormatError, MismatchError, NotADatasetError, TokenmillError
from tokenmill.train.checkpoint import latest, read_state
from tokenmill.train.run_data import open_run

FILE_NAME = "edits.jsonl"
REFUSALS = (ValueError, TypeError, OSError, TokenmillError)
"""What a wrong line raises when it is applied."""
RANGES = ("steps", "samples", "tokens")
WORDS = ("weights", "documents", "source", "epochs", "then", "name", "data")
"""Fields of an edit that are printed after its kind, besides RANGES."""


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


def apply_line(loader: BatchLoader, line: str, where: str) -> dict[str, Any]:
    """Make the edit of a line, or raise one of REFUSALS; return the fields of the line."""
    request = parse_object(line.encode(), where)
    step = request.get("step")
    if "kind" not in request or (step is not None and type(step) is not int):
        raise ValueError(f"{where} needs the kind of the edit; its step, if any, is a whole number")
    values = {n: value for n, value in request.items() if n not in ("step", "note", "asked")}
    edit = edit_from_json(values.pop("kind"), values)
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
    with (run_dir / FILE_NAME).open("ab+") as file:
        file.seek(0)
        before = file.read()
        if before and not before.endswith(b"\n"):  # a line by hand, whose end is missing
            file.write(b"\n")
        file.write("".join(f"{line}\n" for line in lines).encode())
        sync_open_file(file)
    return requests


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
    """Return an entry per line that was read before a checkpoint: its fields, or why `refused`."""
    entries = state["edits"]
    if not all(isinstance(e, dict) and type(e.get("read_at_step")) is int for e in entries):
        raise FormatError(f"the state.json of this checkpoint has edits {entries!r:.100}")
    return list(entries)


def lines_of_edits(edits: Mapping[str, Any]) -> Iterator[str]:
    """Yield the edits of `edits_of_run` as lines of text."""
    for entry in edits["edits"]:
        step = entry["read_at_step"]
        if "refused" in entry:
            yield f"refused at step {step:,}: {entry['refused']}; the line is {entry['line']}"
        else:
            about = [f"{name} {entry[name]}" for name in ("asked", "read", "note") if name in entry]
            yield "; ".join([words_of(entry, entry.get("step", step)), *about])
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
        elif name in WORDS:
            parts.append(f"{name} {value}")
    words = ", ".join(parts)
    return words if step is None or edit["kind"] == "skip" else f"from step {step:,} on: {words}"


@dataclass
class RunEdits:
    """The edits of a run that lives, on one rank."""

    run_dir: Path
    loader: BatchLoader
    is_main: bool
    share: Callable[[str], list[str]]
    """Called by all ranks with a text each, it returns the texts of all of them."""
    say: Callable[[str], object]
    entries: list[dict[str, Any]] = field(default_factory=list)
    """What became of each line of edits.jsonl that was read so far, for the checkpoint."""

    def start(self) -> None:
        """Make the edits that were asked for before the first batch; a wrong line is an error."""
        if (why := self._different_order()) is not None:
            raise MismatchError(
                f"the ranks would not train on the same data: {why}",
                hint="give every rank the same data and the same edits",
            )
        for edit in self.loader.edits:
            if edit["kind"] == "grow" and edit["at"] == self.loader.state_dict()["samples"]:
                self.say(f"Edit: {words_of(edit, self.loader.step)}")
        for refusal in self._make_new():
            raise TokenmillError(
                f"{self.run_dir}/{refusal}", hint="correct this line, or remove it"
            )

    def take(self) -> None:
        """Make the edits that were asked for meanwhile; one that is wrong is set aside."""
        try:
            for refusal in self._make_new():
                self.say(f"warning: {refusal}")
        except TokenmillError as error:
            self.say(f"warning: no edits are taken: {error}")

    def _make_new(self) -> Iterator[str]:
        """Make the edits of the new lines, the same on all ranks; yield each refusal in words."""
        num_read = len(self.entries)
        new: dict[str, Any] = {}
        if self.is_main:
            try:
                new = {"lines": read_lines(self.run_dir, num_read)[num_read:]}
            except (OSError, TokenmillError) as error:
                new = {"error": str(error)}
        new = json.loads(self.share(json.dumps(new))[0])
        if "error" in new:
            raise TokenmillError(new["error"])
        for number, line in enumerate(new["lines"], num_read + 1):
            where = f"{FILE_NAME}, edit {number}"
            if (why := self._make(line, where)) is not None:
                yield f"{where} is refused: {why}"

    def _make(self, line: str, where: str) -> str | None:
        """Make the edit of a line on all ranks, or on none; return why it was refused."""
        before = copy.copy(self.loader)
        wrong = ""
        try:
            request = apply_line(self.loader, line, where)
        except REFUSALS as error:
            wrong = str(error)
        refusals = [f"rank {rank}: {why}" for rank, why in enumerate(self.share(wrong)) if why]
        why = refusals[0].removeprefix("rank 0: ") if refusals else self._different_order()
        step = self.loader.step
        read = {"read": now(), "read_at_step": step}
        if why is None:
            self.entries.append({**request, **read})
            self.say(f"Edit: {words_of(request, request.get('step', step))}")
            return None
        if not wrong:
            self.loader.load_state_dict(before.state_dict())
        self.entries.append({"line": line, "refused": why, **read})
        return why

    def _different_order(self) -> str | None:
        """Say which rank has another order than rank 0, and what the two have."""
        order = self.loader.order_fingerprint
        first, *others = self.share(f"order {order}, data {self.loader.data.fingerprint}")
        for rank, other in enumerate(others, 1):
            if other != first:
                return f"rank 0 has {first}; rank {rank} has {other}"
        return None
