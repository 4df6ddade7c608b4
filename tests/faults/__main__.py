"""`python -m faults` (or `make faults`): everything is killed, failed, flipped, fuzzed, attacked.

 forks.py        commands of ours in forked children, traced by strace
 operations.py   the commands that are disturbed
 case.py         what they must come to, and what may be seen in between
 kills.py        killed at system calls, or at any time
 killed_readers.py  readers of a dataset in a store, killed
 calls.py        every system call fails once, with each error
 trace.py        what a command did to its files, and what a loss of power leaves of it
 lost_writes.py  the power is lost at any moment
 flips.py        every byte of a dataset, an index, a state is changed
 hostile.py      states and edits with values that nobody means
 mutate.py       ways to damage a file
 readers.py      everything that reads a file
 tokenizer_files.py  tokenizers in files, for the readers
 tokenizer_parts.py  a tokenizer.json of parts drawn by chance
 machines.py     machines of their own, as namespaces of this one
 cluster.py      a cluster with nothing but a bucket loses machines
 served.py       the same for what a server sends, and for work that was stopped
 fuzz.py         damaged files for all readers
 attacks.py      attacks on `tokenmill view`
 tally.py        counts, and what failed

`--short` takes seconds and is a part of `make test`. A part that is done is written to the results
at once, with the commit that it was run at. So the parts may be run one by one: `--only kills`,
`--only fuzz --readers csv`. Parts of different commits are said, and are an error: what is kept is
about one state of the code. Where something could not be tried, the results name it as skipped.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from faults.forks import ROOT
from faults.operations import OPERATIONS
from faults.tally import Tally

COMMIT = re.compile("[0-9a-f]{40}")
COUNTED = {
    "kills": (
        "kills", 1000, "a command is killed at a system call, or at any time, and given again",
    ),
    "calls": ("failed calls", 2900, "a system call of a command fails, each call with each error"),
    "losses": (
        "losses of power", 1000,
        "the power is lost in the middle of a command: what was not synced is gone",
    ),
    "flips": (
        "noticed", 28_000,
        "a bit of a dataset, an index, a state is flipped, a file cut, made longer or swapped",
    ),
    "fuzz": ("files", 110_000, "a damaged file is read, of every kind that is read at all"),
    "hostile": (
        "states and edits", 500,
        "a state or an edit has values that are huge, nested, negative, contradictory",
    ),
    "attacks": ("requests", 4000, "an odd request is sent to `tokenmill view`"),
    "stores": ("kills", 32, "a reader of a dataset in a store is killed, over a bad network"),
    "cluster": (
        "machines lost", 70,
        "a machine of a cluster with nothing but a bucket is lost, over a bad network",
    ),
}  # fmt: skip
"""What is counted in each part, how many at least, and what is done."""
PAGE = ROOT / "docs" / "design" / "promises.md"
RESULTS = ROOT / "bench" / "results" / "faults.json"
KILLED = [name for name in OPERATIONS if not name.startswith("small ")]
SHORTLY_KILLED = ("prepare", "pretokenize")
FAILED = ("small prepare", "small convert", "small compress", "serve documents")
FAILED_IN_PART = {"small retokenize": 150, "small tokenizer": 150, "edit": 40, "edited train": 60}
LOST = [name for name in KILLED if name != "serve documents"]  # it writes through a map
SHORTLY_LOST = ("small prepare", "pretokenize")


def kills(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.kills import kill_at_calls, kill_at_times

    names = given.operations or (SHORTLY_KILLED if given.short else KILLED)
    kill_at_calls(tally, scratch, names, 12 if given.short else given.cases or 90)
    if not given.short:
        (scratch / "times").mkdir()
        kill_at_times(tally, scratch / "times", names, 4)


def calls(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.calls import fail_calls

    if given.short or given.operations:
        names = given.operations or FAILED
        fail_calls(tally, scratch, names, given.cases or (12 if given.short else None))
        return
    fail_calls(tally, scratch, FAILED, given.cases)
    for name, most in FAILED_IN_PART.items():  # they take long, or make many calls
        fail_calls(tally, scratch, [name], given.cases or most)


def losses(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.lost_writes import lose_writes

    names = given.operations or (SHORTLY_LOST if given.short else LOST)
    lose_writes(tally, scratch, names, given.cases or (4 if given.short else 30))


def flips(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.flips import flip_bytes

    flip_bytes(tally, scratch, 60 if given.short else 1)


def fuzz(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.fuzz import fuzz as run
    from faults.readers import READERS

    most = given.cases or (12 if given.short else 3400)
    run(tally, scratch, given.readers or list(READERS), most, given.first)


def hostile(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.hostile import give_hostile_values

    give_hostile_values(tally, scratch, given.cases or (40 if given.short else 400))


def attacks(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.attacks import attack_view

    attack_view(tally, scratch, given.cases or (40 if given.short else 2000))


def stores(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.killed_readers import CASES, STORES, kill_readers

    if given.short:
        kill_readers(tally, scratch, ["moto"], [CASES[0], CASES[3]], 1)
    else:
        kill_readers(tally, scratch, list(STORES), CASES, given.cases or 8)


def cluster(tally: Tally, scratch: Path, given: argparse.Namespace) -> None:
    from faults.cluster import CASES, run_cluster

    names = given.operations or ([] if given.short else list(CASES))
    run_cluster(tally, scratch, names, 1 if given.short else (given.cases or 20))


PARTS: dict[str, Callable[[Tally, Path, argparse.Namespace], None]] = {
    "kills": kills, "calls": calls, "losses": losses, "flips": flips, "fuzz": fuzz,
    "hostile": hostile, "attacks": attacks, "stores": stores, "cluster": cluster,
}  # fmt: skip


def main() -> int:
    given = _arguments()
    names = given.only or list(PARTS)
    if given.results and (why := _refusal(given, names)):
        print(f"error: {why}", file=sys.stderr)
        return 2
    failed = 0
    for name in names:
        commit = commit_now()
        with tempfile.TemporaryDirectory(dir=_fast_folder()) as scratch:
            tally = Tally(given.seed)
            PARTS[name](tally, Path(scratch), given)
        if not tally.counts:
            tally.fail(name, f"nothing was tried: {tally.skipped}")
        part = {"commit": _same(commit, commit_now()), **tally.to_json()}
        print(f"{name}, seed {given.seed}, {part['seconds']} s: {part['totals']}", flush=True)
        for what, why in tally.skipped.items():
            print(f"  skipped: {what}: {why}", flush=True)
        for failure in tally.failures[:20]:
            print(f"  {failure}", file=sys.stderr)
        failed += len(tally.failures)
        if given.results:
            _keep(given.results, name, part, replaces_all=not (given.readers or given.operations))
    if given.results:
        results = json.loads(given.results.read_text())
        if given.results.resolve() == RESULTS:
            _write_page(results)
        for wrong in not_one_run(results):
            print(f"error: {given.results}: {wrong}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def commit_now() -> str:
    """The commit that is checked out; what was changed since is said."""
    commit = _git("rev-parse", "HEAD") or "unknown"
    return f"{commit} and changes" if _git("status", "--porcelain", "src", "tests") else commit


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _same(before: str, after: str) -> str:
    return before if before == after else f"{before} and {after}"


def not_one_run(results: dict) -> list[str]:
    """Why these are not the results of one state of the code, all parts of it, at their sizes."""
    wrong = [f"{name} is missing" for name in PARTS if name not in results]
    commits = {name: part.get("commit", "unknown") for name, part in results.items()}
    if len(set(commits.values())) > 1 or not all(map(COMMIT.fullmatch, commits.values())):
        wrong.append(f"its parts are not all of one commit: {commits}")
    for name, (counted, least, _) in COUNTED.items():
        cases = results.get(name, {"totals": {}})["totals"].get(counted, 0)
        if cases < least:
            wrong.append(f"{name} has {cases:,} {counted}; at least {least:,} are wanted")
    return wrong


def rows_of(results: dict) -> list[str]:
    """The rows of the table on the page of promises."""
    rows = []
    for name, (counted, _, what) in COUNTED.items():
        if name in results:
            cases, failed = results[name]["totals"].get(counted, 0), len(results[name]["failures"])
            rows.append(f"| {name} | {what} | {cases:,} | {failed} |")
    return rows


def _write_page(results: dict) -> None:
    rows = "".join(f"{row}\n" for row in rows_of(results))
    table = re.compile(r"(\| run \| .*\n\|---.*\n)(\|.*\n)+")
    PAGE.write_text(table.sub(lambda found: found[1] + rows, PAGE.read_text()))


def _refusal(given: argparse.Namespace, names: list[str]) -> str | None:
    """Why a run must not be kept, before it takes its time."""
    commit = commit_now()
    if not COMMIT.fullmatch(commit):
        return f"results name the commit that was run, and this is {commit}: commit first"
    if given.results.exists() and (given.readers or given.operations):
        known = json.loads(given.results.read_text())
        for name in names:
            before = known[name].get("commit", "unknown") if name in known else commit
            if before != commit:
                return f"{name} was run at {before}, and a part of it cannot be added at {commit}"
    return None


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
