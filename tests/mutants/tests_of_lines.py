"""Which tests run a line: the suite is run once with coverage, and what it found is kept in a file.

pytest loads this file as a plugin: every line that runs belongs to the test that is running. A
process that a test starts is told the test by the variable PYTEST_CURRENT_TEST.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
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
        self._lines = json.loads(path.read_text())

    def __call__(self, path: str, line: int) -> list[str]:
        """Return the tests that run a line, or the nearest one above it that any test runs."""
        lines = {int(number): tests for number, tests in self._lines.get(path, {}).items()}
        above = [number for number in lines if number <= line]
        return lines[max(above)] if above else []


def measure(root: Path, kept: Path) -> None:
    """Run all tests of the tree at `root`; keep which lines of the source each of them runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "pytest", *OPTIONS.split()]
        subprocess.run(command, cwd=root, env=_environment(root, folder), check=False)
        seconds = json.loads((folder / "seconds").read_text())
        kept.write_text(json.dumps(_lines_of(folder, root, seconds)))


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


def _lines_of(folder: Path, root: Path, seconds: dict[str, float]) -> dict[str, dict[int, list]]:
    found: dict[str, dict[int, set]] = defaultdict(lambda: defaultdict(set))
    for part in folder.glob("lines.*"):
        data = coverage.CoverageData(str(part))
        try:
            data.read()
        except coverage.exceptions.DataError:
            continue  # its process was killed while it wrote
        for path in data.measured_files():
            for line, contexts in data.contexts_by_lineno(path).items():
                tests = {*contexts, *(context.rpartition(" (")[0] for context in contexts)}
                found[str(Path(path).relative_to(root))][line] |= tests & seconds.keys()
    return {
        path: {
            line: sorted(tests, key=seconds.__getitem__) for line, tests in lines.items() if tests
        }
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
