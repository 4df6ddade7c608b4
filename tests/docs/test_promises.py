"""promises.md names tests that exist, with cases that they have, and counts of real runs."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

from docs_blocks import ROOT
from faults.__main__ import COUNTED, rows_of

PAGE = (ROOT / "docs" / "design" / "promises.md").read_text()
ROW = re.compile(r"`(tests/[\w/.]+::[\w:]+)` \| (\d+)\b[^|]*\|$", re.MULTILINE)
NAMED = {name: int(cases) for name, cases in ROW.findall(PAGE)}


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

    assert PAGE.count("\n| ") > len(rows_of(results)) > 0
    for row in rows_of(results):
        assert row in PAGE
    for name, part in results.items():
        counted, least, _ = COUNTED[name]
        assert part["totals"][counted] >= least
    assert len({part.get("commit") for part in results.values()}) == 1
