"""An operation with the files before it and after it, and what may be seen in between.

`before` and `after` are all files of its folder in a run that nobody disturbed. However a run is
disturbed, the same command again must give the files of `after` and no other. What a reader finds
meanwhile is what was there before, or all of what is made; where several files become one dataset
by a manifest, each is whole from its first moment on, before the manifest as well.
"""

import fnmatch
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults.forks import Ended, Forks
from faults.operations import Operation
from small_corpus import files_of

from tokenmill.errors import TokenmillError

Files = dict[str, bytes]
STATE = re.compile(r"run/checkpoints/step_\d+/state\.json")
TIMES = re.compile(rb'"(read|asked)": "[^"]*"')
PAGES = {".html": b"</html>", ".svg": b"</svg>"}
METRICS = re.compile(rb"(# TYPE \w+ \w+\n|\w+(\{[^\n]*\})? [\d.e+-]+\n)+")


class Case:
    """One operation in a folder that is made anew for every run."""

    def __init__(self, operation: Operation, scratch: Path, forks: Forks) -> None:
        self.operation, self._forks = operation, forks
        self._template = scratch / f"{operation.name}-template"
        self._template.mkdir()
        operation.set_up(self._template)
        self.folder = scratch / operation.name
        self.before: Files = files_of(self._template)
        self.fresh()
        ended = self.run()
        assert ended.code == 0, ended.said
        self.after: Files = files_of(self.folder)

    def run(self, strace: Sequence[str] = ()) -> Ended:
        """The command, in the folder as it is now."""
        return self._forks.run(self.operation.arguments, self.folder, strace)

    def calls(self) -> Counter[str]:
        """How often each system call is made, in an undisturbed run."""
        log = self.folder.with_suffix(".strace")
        self.fresh()
        self.run(["-o", str(log)])
        found = re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
        return Counter(found)

    def fresh(self) -> Path:
        """The folder as it is before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._template, self.folder)
        return self.folder

    def resumes(self, ended: Ended) -> bool:
        """Whether a command that was given again ended as it should."""
        return ended.code == 0 or ended.code in self.operation.refuses_with

    def differences(self) -> list[str]:
        """What is not as after an undisturbed run."""
        found = files_of(self.folder)
        extra = found.keys() - self.after.keys()
        wrong = [f"{name} is left over" for name in extra if not self._stays(name)]
        wrong += [f"{name} is missing" for name in self.after.keys() - found.keys()]
        for name in found.keys() & self.after.keys():
            if not self._varies(name) and not self.is_same(name, found[name], self.after[name]):
                wrong.append(f"{name} has other bytes")
        if "run/metrics.jsonl" in self.operation.varies and not wrong:
            name = "run/metrics.jsonl"
            if _losses(found[name]) != _losses(self.after[name]):
                wrong.append("the losses are others")
        return wrong + list(self._wrong_lines(found))

    def wrongly_visible(self, *, after_a_loss: bool = False) -> list[str]:
        """What a reader must not see, in a folder whose command did not come to its end.

        After a loss of power, files that no manifest names yet, and those that are not synced at
        all, may have any bytes.
        """
        found = files_of(self.folder)
        match self.operation.appears:
            case "at once":
                return list(self._not_at_once(found, each=not after_a_loss))
            case "file by file":
                return list(self._not_whole(found))
            case "step by step":
                return [*self._not_a_checkpoint(), *(() if after_a_loss else self._cut(found))]
            case _:
                return list(self._wrong_lines(found))

    def published(self, files: Files) -> Files:
        """Those for readers; the card of a dataset is not, nor is what is hidden, or stays."""
        made = self.operation.made
        return {
            name: data
            for name, data in files.items()
            if name == made or name.startswith(f"{made}/")
            if not any(part.startswith(".") for part in name.split("/"))
            if not name.endswith("README.md") and not self._stays(name)
        }

    def is_same(self, name: str, found: bytes | None, expected: bytes) -> bool:
        """Whether the bytes of a file are those that it should have, but for times."""
        return found is not None and _lasting(name, found) == _lasting(name, expected)

    def _not_at_once(self, found: Files, *, each: bool) -> Iterator[str]:
        seen, before, after = map(self.published, (found, self.before, self.after))
        manifest = next((name for name in self.operation.commits if name in after), None)
        if manifest is None or manifest == self.operation.made:  # a folder or a file by itself
            if seen not in (before, after):
                yield f"{sorted(seen)} are visible, and are neither what was nor what should be"
            return
        yield from self._not_whole(found) if each else ()
        if manifest in seen:
            whole = [files for files in (before, after) if manifest in files]
            if not any(files.items() <= seen.items() for files in whole):
                yield f"{manifest} is visible with files that are neither old nor new"

    def _not_whole(self, found: Files) -> Iterator[str]:
        """Files that have their names too early, or names that nothing should have."""
        for name, data in self.published(found).items():
            versions = [files[name] for files in (self.before, self.after) if name in files]
            if not versions:
                yield f"{name} is visible, and should never be there"
            elif not self._varies(name) and data not in versions:
                yield f"{name} is visible with other bytes"

    def _not_a_checkpoint(self) -> Iterator[str]:
        """In a run, all that are visible are whole checkpoints."""
        from tokenmill.train import checkpoint

        run = self.folder / self.operation.made
        try:
            checkpoint.latest(run)
            for step in sorted(run.glob("checkpoints/step_*")):
                checkpoint.load(step)
        except (TokenmillError, OSError) as error:
            yield f"a checkpoint is visible and not whole: {error}"

    def _cut(self, found: Files) -> Iterator[str]:
        """In a run, every other file is whole."""
        for name, data in self.published(found).items():
            if name.endswith("metrics.jsonl"):
                rows = data.split(b"\n")[:-1]  # the last one may be cut
                if not all(row.startswith(b"{") and row.endswith(b"}") for row in rows):
                    yield f"{name} has lines that are cut"
            elif Path(name).suffix in PAGES:
                if not data.rstrip().endswith(PAGES[Path(name).suffix]):
                    yield f"{name} is cut"
            elif name.endswith(".prom"):
                if not METRICS.fullmatch(data):
                    yield f"{name} is cut"
            elif (
                "/checkpoints/" not in name
                and name in self.after
                and data not in (self.before.get(name), self.after[name])
            ):
                yield f"{name} is visible with other bytes"

    def _wrong_lines(self, found: Files) -> Iterator[str]:
        """Of a file that lines are added to: those before are there, a new one is whole.

        A command that was killed when its line was there adds it once more: that is two edits.
        """
        if self.operation.appears != "by lines":
            return
        [name] = self.operation.varies
        if not found[name].startswith(self.before[name]):
            yield f"{name} has lost lines"
        [new] = self.after[name].removeprefix(self.before[name]).splitlines()
        for line in found[name].removeprefix(self.before[name]).split(b"\n")[:-1]:
            if TIMES.sub(b"", line) != TIMES.sub(b"", new):
                yield f"{name} has the line {line!r}"

    def _stays(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.operation.stays)

    def _varies(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.operation.varies)


def _lasting(name: str, data: bytes) -> object:
    """The bytes of a file; of the state of a checkpoint, all but times and the hash of these."""
    if STATE.fullmatch(name) and b'"read"' in data:
        state = json.loads(TIMES.sub(b'"time": ""', data))
        return {key: value for key, value in state.items() if key != "xxh3_128"}
    return data


def _losses(metrics: bytes) -> list[dict]:
    rows = [json.loads(line) for line in metrics.splitlines()]
    return [{k: row.get(k) for k in ("step", "loss", "val_loss", "sample")} for row in rows]
