"""What the search for repeated lines costs per line, when there are ten times as many of them.

Hashes as the stage `lines` leaves them are searched as a preparation does: CPU seconds
per line of the search, and of asking for the repeated lines of every unit.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from tokenmill.preparation.stages.duplicates import Search
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.text.cleaning.dedup import HASH

RESULTS = Path(__file__).parent / "results" / "search.json"
SHARE_REPEATED = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, nargs="+", default=[50, 500, 600])
    parser.add_argument("--lines", type=int, default=100_000, help="in a unit")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    best: dict[int, float] = {}
    for _ in range(arguments.rounds):
        for units in arguments.units:
            seconds = measure(units, arguments.lines) / (units * arguments.lines)
            best[units] = min(seconds, best.get(units, seconds))
    first = best[arguments.units[0]]
    result = {
        "lines_per_unit": arguments.lines,
        "cpu_ns_per_line": {str(units): round(1e9 * best[units], 1) for units in best},
        "times_the_first": {str(units): round(best[units] / first, 2) for units in best},
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def measure(units: int, lines: int) -> float:
    """CPU seconds of one search over so many units."""
    folder = tempfile.mkdtemp(prefix="tokenmill-bench-")
    workspace, generator = WorkFolder(folder), np.random.default_rng(0)
    try:
        common = generator.integers(0, 1 << 64, (1 << 16, 2), np.uint64)
        search = Search("lines", units, num_hashes=units * lines)
        for number in range(units):
            values = generator.integers(0, 1 << 64, (lines, 2), np.uint64)
            again = np.flatnonzero(generator.random(lines) < SHARE_REPEATED)
            values[again] = common[generator.integers(0, len(common), len(again))]
            hashed = [(values.view(HASH).reshape(-1), np.arange(lines))]
            search.write_hashes(workspace, number, hashed)
        began = time.process_time()
        for partition in range(search.partitions):
            search.run(workspace, partition)
        found = sum(len(search.repeated(workspace, number)) for number in range(units))
        assert found > 0.1 * units * lines
        return time.process_time() - began
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
