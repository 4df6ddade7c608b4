"""`make mutants`: does any test notice a defect? Each is put into a copy of the tree, one by one.

 named.diff  defects chosen by hand: a sync, a rename, a hash, a lock, a bound that is not there
 mutate.py   defects drawn by chance from all rooms, with a fixed seed
 equal.json  drawn defects that change nothing anybody could see, each with the reason

    cd tests && python -m mutants                 # all; about two hours on two idle cores
    cd tests && python -m mutants --named         # those chosen by hand
    cd tests && python -m mutants --drawn 20 --seed 7
    cd tests && python -m mutants --drawn 100 --first 40 --stop 60

The tests of the file and its room are run until one fails, then promises and faults, then the tests
of the rooms that import it. A test that fails must fail once more, and pass without the defect.
Results go to bench/results/mutants.json with the commit; the exit code is 1 if a defect that is not
in equal.json went unnoticed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants.mutate import PACKAGE, ROOT, Defect, draw, named

RESULTS = ROOT / "bench" / "results" / "mutants.json"
EQUAL = Path(__file__).parent / "equal.json"
SECONDS = 1500  # for the tests of one room; a defect that makes them hang is noticed
SEED = 20
DRAWN = 100


def main() -> None:
    given = parse()
    defects = [] if given.drawn is not None else [("named", defect) for defect in named()]
    if not given.named:
        count = DRAWN if given.drawn is None else given.drawn
        drawn = draw(count, given.seed)[given.first : given.stop]
        defects += [(f"drawn with seed {given.seed}", defect) for defect in drawn]
    equal = json.loads(EQUAL.read_text())
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        copy = Copy(Path(name) / "tree")
        rows = []
        for number, (kind, defect) in enumerate(defects, 1):
            began = time.monotonic()
            noticed_by = copy.try_defect(defect)
            row = {"kind": kind, "defect": defect.name, "noticed_by": noticed_by}
            if noticed_by is None and defect.name in equal:
                row["equal"] = equal[defect.name]
            rows.append(row)
            ended = noticed_by or row.get("equal") or "NOT NOTICED"
            seconds = time.monotonic() - began
            print(f"{number}/{len(defects)} {seconds:.0f} s {defect.name}", flush=True)
            print(f"    {ended}", flush=True)
            if given.results:
                given.results.write_text(json.dumps(summary(rows), indent=1) + "\n")
    found = summary(rows)
    print(json.dumps({name: value for name, value in found.items() if name != "defects"}, indent=1))
    sys.exit(int(bool(found["not_noticed"])))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--named", action="store_true", help="only those chosen by hand")
    parser.add_argument("--drawn", type=int, help="only these many drawn by chance")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=0, help="leave out those before it")
    parser.add_argument("--stop", type=int, help="leave out those from it on")
    parser.add_argument("--folder", type=Path, help="where the copy of the tree is made")
    parser.add_argument("--results", type=Path, help="the file that results are kept in")
    return parser.parse_args()


def summary(rows: list[dict[str, str | None]]) -> dict[str, object]:
    """Counts, and every defect with the test that noticed it."""
    commit = subprocess.check_output(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True
    )
    return {
        "commit": commit.strip(),
        "tried": len(rows),
        "noticed": sum(row["noticed_by"] is not None for row in rows),
        "equal": sum("equal" in row for row in rows),
        "not_noticed": [
            row["defect"] for row in rows if row["noticed_by"] is None and "equal" not in row
        ],
        "defects": rows,
    }


class Copy:
    """A copy of the tree, in which the tests run."""

    def __init__(self, root: Path) -> None:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        changed = subprocess.check_output(["git", "diff", "HEAD", "--binary"], cwd=ROOT)
        if changed:
            subprocess.run(["git", "apply"], cwd=root, input=changed, check=True)
        self.root = root
        self._build_kernel()

    def try_defect(self, defect: Defect) -> str | None:
        """Return the test that notices a defect; None if no test does."""
        is_compiled = defect.path.endswith((".c", ".h"))
        defect.apply(self.root)
        try:
            if is_compiled:
                self._build_kernel()
            failed = next(filter(None, map(self._run_tests, tests_for(defect.path))), None)
            if failed is not None and "::" in failed and self._run_tests([failed]) is None:
                raise SystemExit(f"{failed} does not always fail with {defect.name}")
        finally:
            defect.revert(self.root)
            if is_compiled:
                self._build_kernel()
        if failed is not None and "::" in failed and self._run_tests([failed]) is not None:
            raise SystemExit(f"{failed} fails without a defect")
        return failed

    def _run_tests(self, paths: list[str]) -> str | None:
        """Return the first test that fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        try:
            done = subprocess.run(
                [*command, *paths],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"{paths[0]} takes more than {SECONDS} s"
        if done.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return found[1] if found else f"{paths[0]} ends with code {done.returncode}"

    def _build_kernel(self) -> None:
        shutil.rmtree(self.root / "build", ignore_errors=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)


def tests_for(path: str) -> list[list[str]]:
    """The tests of a file: those named after it, of its room, and of the rooms that import it."""
    parts = Path(path).relative_to(PACKAGE.relative_to(ROOT)).parts
    room = parts[0] if len(parts) > 1 else "."
    tests = ROOT / "tests"
    name = Path(path).stem.strip("_")
    own = [str(test.relative_to(ROOT)) for test in sorted(tests.glob(f"*/test_*{name}*.py"))]
    here = [str(test.relative_to(ROOT)) for test in sorted(tests.glob("test_*.py"))]
    if (tests / room).is_dir() and room != ".":
        here = [f"tests/{room}"]
    above = [f"tests/{other}" for other in importers(room) if (tests / other).is_dir()]
    return [group for group in (own, here, ["tests/promises", "tests/faults"], above) if group]


def importers(room: str) -> list[str]:
    """Rooms that import from this one."""
    asked = "tokenmill" if room == "." else f"tokenmill.{room}"
    found = set()
    for path in PACKAGE.rglob("*.py"):
        other = path.relative_to(PACKAGE).parts[0]
        if other != room and re.search(rf"(?:from|import) {re.escape(asked)}\b", path.read_text()):
            found.add(other)
    return sorted(found)


if __name__ == "__main__":
    main()
