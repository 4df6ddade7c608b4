"""`python -m faults` (or `make faults`): everything is killed, failed, flipped, fuzzed, attacked.

 forks.py        commands of ours in forked children, traced by strace
 operations.py   the commands that are disturbed, and what they must come to
 kills.py        killed at system calls, or at any time
 killed_readers.py  readers of a dataset in a store, killed
 calls.py        every system call fails once, with each error
 flips.py        every byte of a dataset is changed
 mutate.py       ways to damage a file
 readers.py      everything that reads a file
 tokenizer_files.py  tokenizers in files, for the readers
 tokenizer_parts.py  a tokenizer.json of parts drawn by chance
 served.py       the same for what a server sends, and for work that was stopped
 fuzz.py         damaged files for all readers
 attacks.py      attacks on `tokenmill view`
 tally.py        counts, and what failed

`--short` takes seconds and is a part of `make test`. A part that is done is written to the results
at once, so that the parts may be run one by one: `--only kills`, `--only fuzz --readers csv`.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from faults.forks import ROOT
from faults.operations import OPERATIONS
from faults.tally import Tally

RESULTS = ROOT / "bench" / "results" / "faults.json"
KILLED = ("prepare", "append", "overwrite", "convert", "pretokenize", "download", "train")
SHORTLY_KILLED = ("prepare", "pretokenize")
FAILED = ("small prepare", "small convert")
LOST = [name for name in OPERATIONS if name != "serve documents"]  # it writes through a map
SHORTLY_LOST = ("small prepare", "pretokenize")


def kills(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.kills import kill_at_calls, kill_at_times

    names = given.operations or (SHORTLY_KILLED if given.short else KILLED)
    kill_at_calls(tally, scratch, names, 12 if given.short else given.cases or 160)
    if not given.short:
        (scratch / "times").mkdir()
        kill_at_times(tally, scratch / "times", names, 4)


def calls(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.calls import fail_calls

    fail_calls(tally, scratch, given.operations or FAILED, 12 if given.short else given.cases)


def losses(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.lost_writes import lose_writes

    names = given.operations or (SHORTLY_LOST if given.short else LOST)
    lose_writes(tally, scratch, names, given.cases or (4 if given.short else 40))


def flips(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.flips import flip_bytes

    flip_bytes(tally, scratch, 60 if given.short else 1)


def fuzz(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.fuzz import fuzz as run
    from faults.readers import READERS

    most = given.cases or (12 if given.short else 3400)
    run(tally, scratch, given.readers or list(READERS), most, given.first)


def attacks(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.attacks import attack_view

    attack_view(tally, scratch, given.cases or (40 if given.short else 2000))


def stores(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.killed_readers import CASES, STORES, kill_readers

    if given.short:
        kill_readers(tally, scratch, ["moto"], [CASES[0], CASES[3]], 1)
    else:
        kill_readers(tally, scratch, list(STORES), CASES, given.cases or 8)


PARTS: dict[str, Callable[[Tally, Path, argparse.Namespace], None]] = {
    "kills": kills, "calls": calls, "losses": losses, "flips": flips, "fuzz": fuzz, "attacks": attacks,
    "stores": stores,
}  # fmt: skip


def main() -> int:
    given = _arguments()
    failed = 0
    for name in given.only or PARTS:
        with tempfile.TemporaryDirectory(dir=_fast_folder()) as scratch:
            tally = Tally(given.seed)
            PARTS[name](tally, Path(scratch), given)
        part = tally.to_json()
        print(f"{name}, seed {given.seed}, {part['seconds']} s: {part['totals']}", flush=True)
        for failure in tally.failures[:20]:
            print(f"  {failure}", file=sys.stderr)
        failed += len(tally.failures)
        if given.results:
            _keep(given.results, name, part, replaces_all=not (given.readers or given.operations))
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--short", action="store_true", help="a few of everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="of each operation, reader or kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first fuzzed file")
    parser.add_argument("--readers", nargs="+", help="only these, of the fuzzed readers")
    parser.add_argument("--operations", nargs="+", help="only these, of the commands")
    parser.add_argument("--results", type=Path, help=f"a JSON file, such as {RESULTS}")
    return parser.parse_args()


def _fast_folder() -> str | None:
    """In memory where there is such a folder: a disk that syncs takes most of the time."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _keep(results: Path, name: str, part: dict, *, replaces_all: bool) -> None:
    """Write what a part did; of a part of it, in place of what the same did before."""
    known = json.loads(results.read_text()) if results.exists() else {}
    if not replaces_all and name in known:
        before, counts = known[name], part["counts"]
        part["seconds"] += before["seconds"]
        part["failures"] += [f for f in before["failures"] if f.partition(":")[0] not in counts]
        part["counts"] = {**before["counts"], **counts}
        totals = sum(map(Counter, part["counts"].values()), Counter())
        part["totals"] = dict(sorted(totals.items()))
    known[name] = part
    results.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
