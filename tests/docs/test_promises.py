"""docs/promises.md names tests that exist, with cases that they have, and counts of real runs."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

from docs_blocks import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text()
ROW = re.compile(r"`(tests/[\w/.]+::[\w:]+)` \| (\d+)\b[^|]*\|$", re.MULTILINE)
NAMED = {name: int(cases) for name, cases in ROW.findall(PAGE)}
RUNS = {
    "kills": ("kills", "a command is killed at a system call, or at any time, and given again"),
    "calls": ("failed calls", "a system call of a command fails, each call with each error"),
    "flips": ("noticed", "a bit of a dataset is flipped, a file cut, made longer or swapped"),
    "fuzz": (
        "files",
        "a damaged file is read, of every kind that is read at all",
    ),
    "attacks": ("requests", "an odd request is sent to `tokenmill view`"),
}


def test_every_test_on_the_page_exists_with_at_least_so_many_cases():
    assert len(NAMED) == PAGE.count("`tests/") - PAGE.count("`tests/faults/`") > 25
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts="),
            *("--import-mode=importlib", "-p", "no:cacheprovider", *NAMED),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[-2000:]
    cases = Counter(line.partition("[")[0] for line in found.stdout.splitlines() if "::" in line)
    assert {name: cases[name] for name, least in NAMED.items() if cases[name] < least} == {}


def test_the_counts_of_the_long_runs_are_those_that_were_kept():
    results = json.loads((ROOT / "bench" / "results" / "faults.json").read_text())

    for name, (counted, what) in RUNS.items():
        cases, failed = results[name]["totals"][counted], len(results[name]["failures"])
        assert f"| {name} | {what} | {cases:,} | {failed} |" in PAGE
    assert results["kills"]["totals"]["kills"] >= 1000
    assert results["fuzz"]["totals"]["files"] >= 100_000
