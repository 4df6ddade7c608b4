"""Which tests run a line: the suite is run once with coverage, and what it found is kept in a file.

pytest loads this file as a plugin: every line that runs belongs to the test that is running. A
process that a test starts is told the test by the variable PYTEST_CURRENT_TEST.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import coverage
import pytest

SETTINGS = """[run]
source = {root}/src/tokenmill
data_file = {folder}/lines
parallel = true
context = ${{PYTEST_CURRENT_TEST-}}
patch = _exit
disable_warnings = no-data-collected,module-not-imported,module-not-measured,already-imported
"""
OPTIONS = "-n 2 --dist worksteal --timeout=900 -p mutants.tests_of_lines -p no:cacheprovider"
SECONDS: dict[str, float] = defaultdict(float)


class TestsOfLines:
    """The tests that run each line of the source, the quickest first."""

    def __init__(self, path: Path) -> None:
        kept = json.loads(path.read_text())
        self._tests = kept["tests"]
        self._lines = kept["lines"]

    def __call__(self, path: str, line: int) -> list[str]:
        """Return the tests that run a line, or the nearest one above it that any test runs.

        The quickest case of every test comes first, then the second of every test, and so on.
        """
        lines = self._lines.get(path, {})
        above = [number for number in map(int, lines) if number <= line]
        tests = [self._tests[place] for place in lines[str(max(above))]] if above else []
        cases: Counter[str] = Counter()
        turns = {}
        for test in tests:
            turns[test] = cases[test.partition("[")[0]]
            cases[test.partition("[")[0]] += 1
        return sorted(tests, key=turns.__getitem__)


def measure(root: Path, kept: Path) -> None:
    """Run all tests of the tree at `root`; keep which lines of the source each of them runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "pytest", *OPTIONS.split()]
        subprocess.run(command, cwd=root, env=_environment(root, folder), check=False)
        seconds = json.loads((folder / "seconds").read_text())
        tests = sorted(seconds, key=seconds.__getitem__)
        found = {"tests": tests, "lines": _lines_of(folder, root, tests)}
        kept.write_text(json.dumps(found))


def _environment(root: Path, folder: Path) -> dict[str, str]:
    settings = folder / "settings"
    settings.write_text(SETTINGS.format(root=root, folder=folder))
    places = [f"{root}/src", f"{root}/tests", os.environ.get("PYTHONPATH")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "COVERAGE_PROCESS_START": str(settings),
        "MUTANTS_SECONDS": str(folder / "seconds"),
    }


def _lines_of(folder: Path, root: Path, tests: list[str]) -> dict[str, dict[int, list[int]]]:
    """For each file and line, the places of its tests in `tests`."""
    places = {test: place for place, test in enumerate(tests)}
    found: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for part in folder.glob("lines.*"):
        data = coverage.CoverageData(str(part))
        try:
            data.read()
        except coverage.exceptions.DataError:
            continue  # its process was killed while it wrote
        for path in data.measured_files():
            lines = found[str(Path(path).relative_to(root))]
            for line, contexts in data.contexts_by_lineno(path).items():
                ran = {*contexts, *(context.rpartition(" (")[0] for context in contexts)}
                lines[line] |= {places[test] for test in ran & places.keys()}
    return {
        path: {line: sorted(ran) for line, ran in lines.items() if ran}
        for path, lines in found.items()
    }


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if measuring := coverage.Coverage.current():
        measuring.switch_context(item.nodeid)


def pytest_runtest_logreport(report):
    SECONDS[report.nodeid] += report.duration if report.passed else float("inf")


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        passed = {test: seconds for test, seconds in SECONDS.items() if seconds < float("inf")}
        Path(os.environ["MUTANTS_SECONDS"]).write_text(json.dumps(passed))
