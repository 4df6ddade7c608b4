"""`make mutants`: does any test notice a defect? Each is put into a copy of the tree, one by one.

 named.diff         defects chosen by hand: a sync, a rename, a lock, a bound that is not there
 mutate.py          defects drawn by chance from all rooms, with a fixed seed
 tests_of_lines.py  which tests run the line that is changed, measured once for a state of src/
 equal.json         drawn defects that change nothing anybody could see, each with the reason

    cd tests && python -m mutants                 # all; about an hour on two idle cores
    cd tests && python -m mutants --named         # those chosen by hand
    cd tests && python -m mutants --drawn 20 --seed 7
    cd tests && python -m mutants --drawn 100 --first 40 --stop 60
    cd tests && python -m mutants --go_on --results FILE    # what is new since FILE was made

The tests that run the changed line come first, the quickest of them before all others; then the
tests of the file and its room, promises and faults, and the rooms that import it, until one fails.
That test must fail once more, and pass without the defect; if not, it is kept as unsure, and the
others go on. Of a defect in equal.json, only the tests that run its line are tried.
Results go to bench/results/mutants.json with the commit; the exit code is 1 if a defect that is not
in equal.json went unnoticed. With --go_on, a row of these results is kept, with its commit, where
neither the file of the defect nor that of the test which noticed it has changed.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutants.mutate import EQUAL, PACKAGE, ROOT, Defect, draw, named
from mutants.tests_of_lines import TestsOfLines, measure

SECONDS = 1500  # for the tests of one room; a defect that makes them hang is noticed
QUICK_SECONDS = 200  # for some of the quickest tests
SECONDS_OF_ONE = 60  # for each of them
QUICKEST = 40  # tests that run a line, of its room and of others: they are tried first
MOST = 400
MEMORY = 6 << 30  # for one process: some defects make lists without end
COPIES = 2  # of the tree: as many defects are tried at a time
SEED = 20
DRAWN = 100
NO_TESTS = 5  # how pytest ends when all are deselected


def main() -> None:
    given = parse()
    defects = [] if given.drawn is not None else [("named", defect) for defect in named()]
    if not given.named:
        count = DRAWN if given.drawn is None else given.drawn
        drawn = draw(count, given.seed)[given.first : given.stop]
        defects += [(f"drawn with seed {given.seed}", defect) for defect in drawn]
    commit = git("describe", "--always", "--dirty")
    kept = kept_rows(given.results) if given.go_on else {}
    rows = []
    with (
        tempfile.TemporaryDirectory(dir=given.folder) as name,
        ThreadPoolExecutor(COPIES) as threads,
    ):
        campaign = Campaign(Path(name), kept, commit, only_those_that_run_it=given.quick)
        for row in threads.map(campaign.try_defect, *zip(*defects, strict=True)):
            rows.append(row)
            ended = row["noticed_by"] or row.get("equal") or "NOT NOTICED"
            print(
                f"{len(rows)}/{len(defects)} {row['seconds']} s {row['defect']}\n    {ended}",
                flush=True,
            )
            if given.results:
                given.results.write_text(json.dumps(summary(commit, rows), indent=1) + "\n")
    found = summary(commit, rows)
    print(json.dumps({name: value for name, value in found.items() if name != "defects"}, indent=1))
    sys.exit(int(bool(found["not_noticed"])))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--named", action="store_true", help="only those chosen by hand")
    parser.add_argument("--drawn", type=int, help="only these many drawn by chance")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=0, help="leave out those before it")
    parser.add_argument("--stop", type=int, help="leave out those from it on")
    parser.add_argument("--quick", action="store_true", help="only the tests that run the line")
    parser.add_argument("--go_on", action="store_true", help="keep results that still hold")
    parser.add_argument("--folder", type=Path, help="where the copy of the tree is made")
    parser.add_argument("--results", type=Path, help="the file that results are kept in")
    return parser.parse_args()


def summary(commit: str, rows: list[dict]) -> dict[str, object]:
    """Counts, and every defect with the test that noticed it."""
    return {
        "commit": commit,
        "tried": len(rows),
        "noticed": sum(row["noticed_by"] is not None for row in rows),
        "equal": sum("equal" in row for row in rows),
        "not_noticed": [
            row["defect"] for row in rows if row["noticed_by"] is None and "equal" not in row
        ],
        "defects": rows,
    }


class Campaign:
    """Tries defects in copies of the tree, each of them in whatever copy is free."""

    def __init__(
        self, folder: Path, kept: dict[str, dict], commit: str, only_those_that_run_it: bool
    ) -> None:
        self._kept = kept
        self._commit = commit
        self._quick = only_those_that_run_it
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(COPIES):
            self._copies.put(Copy(folder / f"tree-{number}"))
        self._tests_of_line = self._measured()

    def try_defect(self, kind: str, defect: Defect) -> dict[str, object]:
        """Return what is kept of a defect: the test that noticed it."""
        if defect.name in self._kept:
            return self._kept[defect.name]
        began = time.monotonic()
        copy = self._copies.get()
        noticed_by, unsure = copy.try_defect(defect, self._groups(defect))
        self._copies.put(copy)
        row = {"kind": kind, "defect": defect.name, "noticed_by": noticed_by}
        row["commit"] = self._commit
        if noticed_by is None and defect.name in EQUAL:
            row["equal"] = EQUAL[defect.name]
        if unsure:
            row["unsure"] = unsure
        return {**row, "seconds": round(time.monotonic() - began)}

    def _groups(self, defect: Defect) -> list[list[str]]:
        ran = self._tests_of_line(defect.path, defect.line)
        own = [test for test in ran if test.startswith(f"tests/{room_of(defect.path)}/")][:QUICKEST]
        others = [test for test in ran if test not in own]
        groups = [own, others[:QUICKEST], others[QUICKEST:MOST]]
        if not self._quick and defect.name not in EQUAL:
            groups += tests_for(defect.path)
        return list(filter(None, groups))

    def _measured(self) -> TestsOfLines:
        """Which tests run a line; measured if it is not known for this state of src/."""
        state = git("rev-parse", "HEAD:src") + git("diff", "HEAD", "--", "src")
        name = f"tokenmill-tests-of-lines-{hashlib.sha256(state.encode()).hexdigest()[:16]}.json"
        kept = Path(tempfile.gettempdir()) / name
        if not kept.exists():
            copy = self._copies.get()
            measure(copy.root, kept)
            self._copies.put(copy)
        return TestsOfLines(kept)


class Failure(NamedTuple):
    """The first test that failed, or what else went wrong with some tests."""

    said: str
    tests: list[str]


class Copy:
    """A copy of the tree, in which the tests run."""

    def __init__(self, root: Path) -> None:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        changed = subprocess.check_output(["git", "diff", "HEAD", "--binary"], cwd=ROOT)
        if changed:
            subprocess.run(["git", "apply"], cwd=root, input=changed, check=True)
        self.root = root
        self._build_kernel()

    def try_defect(self, defect: Defect, groups: list[list[str]]) -> tuple[str | None, list[str]]:
        """Return the test that notices a defect (None: no test does), and those that are unsure."""
        unsure: list[str] = []
        for tests in groups:
            while failure := self._run_with(defect, tests, unsure):
                if self._run_with(defect, failure.tests) and not self._run_tests(failure.tests):
                    return failure.said, unsure
                unsure.append(failure.said)
                if failure.tests == tests:
                    break
        return None, unsure

    def _run_with(
        self, defect: Defect, tests: list[str], without: list[str] | None = None
    ) -> Failure | None:
        with self._having(defect):
            return self._run_tests(tests, without)

    @contextmanager
    def _having(self, defect: Defect) -> Iterator[None]:
        is_compiled = defect.path.endswith((".c", ".h"))
        path = self.root / defect.path
        before = path.read_bytes()
        defect.apply(self.root)
        try:
            if is_compiled:
                self._build_kernel()
            yield
        finally:
            path.write_bytes(before)
            if is_compiled:
                self._build_kernel()

    def _run_tests(self, tests: list[str], without: list[str] | None = None) -> Failure | None:
        """Return what fails first."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        command += [f"--deselect={test}" for test in without or []]
        is_quick = len(tests) <= QUICKEST and all("::" in test for test in tests)
        command += [f"--timeout={SECONDS_OF_ONE}"] if is_quick else ["-n", "2"]
        seconds = QUICK_SECONDS if is_quick else SECONDS
        code, printed = self._run(command, seconds)
        if code in (0, NO_TESTS):
            return None
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", printed, re.MULTILINE)
        if found:
            return Failure(found[1], [found[1]])
        how = f"takes more than {seconds} s" if code is None else f"ends with code {code}"
        return Failure(f"{tests[0]} {how}", tests)

    def _run(self, command: list[str], seconds: int) -> tuple[int | None, str]:
        """Return the exit code (None: it took too long), and what was printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        with tempfile.TemporaryFile("w+") as printed:  # a pipe would wait for what tests left
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=printed, start_new_session=True
            )
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
            try:
                code = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None, ""
            printed.seek(0)
            return code, printed.read()

    def _build_kernel(self) -> None:
        shutil.rmtree(self.root / "build", ignore_errors=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)


def tests_for(path: str) -> list[list[str]]:
    """The tests of a file: those named after it, of its room, and of the rooms that import it."""
    room = room_of(path)
    tests = ROOT / "tests"
    name = Path(path).stem.strip("_")
    own = [str(test.relative_to(ROOT)) for test in sorted(tests.glob(f"*/test_*{name}*.py"))]
    here = [str(test.relative_to(ROOT)) for test in sorted(tests.glob("test_*.py"))]
    if (tests / room).is_dir() and room != ".":
        here = [f"tests/{room}"]
    above = [f"tests/{other}" for other in importers(room) if (tests / other).is_dir()]
    return [group for group in (own, here, ["tests/promises", "tests/faults"], above) if group]


def room_of(path: str) -> str:
    """The room of a file of the package; a point for a file that is in none."""
    parts = Path(path).relative_to(PACKAGE.relative_to(ROOT)).parts
    return parts[0] if len(parts) > 1 else "."


def importers(room: str) -> list[str]:
    """Rooms that import from this one."""
    asked = "tokenmill" if room == "." else f"tokenmill.{room}"
    found = set()
    for path in PACKAGE.rglob("*.py"):
        other = path.relative_to(PACKAGE).parts[0]
        if other != room and re.search(rf"(?:from|import) {re.escape(asked)}\b", path.read_text()):
            found.add(other)
    return sorted(found)


def kept_rows(results: Path) -> dict[str, dict]:
    """Rows of a former run, by defect: its file, and the test that noticed it, are as they were."""
    rows = json.loads(results.read_text())["defects"]
    return {row["defect"]: row for row in rows if row["noticed_by"] and _is_as_it_was(row)}


def _is_as_it_was(row: dict[str, str]) -> bool:
    paths = [row["defect"].partition(": ")[0], row["noticed_by"].partition("::")[0]]
    compared = ["git", "diff", "--quiet", row["commit"], "--", *paths]
    return subprocess.run(compared, cwd=ROOT).returncode == 0


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    main()
