"""What size costs: to plan 10 TB, to look at 300,000 finished tasks, to open 100,000 shards.

Inputs and shards are sparse files, which take no room. The receipts of finished tasks are written
as tasks write them, by 64 processes. Each step is a process of its own; its CPU time and its
largest memory are those that the kernel states. Then text is prepared by one process, in units so
small that all stages of a large preparation run: the CPU time of each stage is what the model in
docs/guides/many_machines.md is made of.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from corpus import documents, write_text
from measure import machine

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.preparation import Run
from tokenmill.preparation.workspace.receipt_log import RECEIPTS, log_line
from tokenmill.shards.manifest import EndsEntry, Manifest, ShardEntry, SplitEntry, TokenizerEntry
from tokenmill.tokens.load_tokenizer import load

RESULTS = Path(__file__).parent / "results" / "scale.json"
UNIT_BYTES = 32 << 20
FILES = 1_000
WRITERS = 64
TOKENS = 10_000_000
HASH = "0123456789abcdef" * 2
COMMAND = """
import sys
from tokenmill.cli import main
from tokenmill.preparation import prepare
prepare.check_space = lambda plan: None  # no disk here has room for what would be written
prepare.units._MOST_UNITS = 1 << 30  # as many as were asked for
main(["prepare", *sys.argv[1:]])
"""
NUMPY = ("-c", "import numpy")
FIRST_BATCH = str(Path(__file__).with_name("first_batch.py"))


def cost(*arguments: str) -> dict[str, float]:
    """CPU seconds and megabytes of one process, its modules compiled, as installed."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        env={**known, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "tokenmill-pycache"))},
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{arguments} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": round(used.ru_maxrss / 1e3, 1),
    }


def make_inputs(folder: Path, units: int) -> None:
    """Sparse text files of so many units."""
    folder.mkdir()
    for number in range(FILES):
        with open(folder / f"{number:05d}.txt", "wb") as file:
            file.write(b"some text\n")
            file.truncate(units * UNIT_BYTES // FILES)


def leave_receipts(run: Path, stage: str, units: int) -> None:
    """The receipts of all units but the last, as tasks leave them."""
    folder = run / ".preparation"
    (folder / RECEIPTS / stage).mkdir(parents=True)
    (folder / stage).mkdir(exist_ok=True)
    for writer in range(WRITERS):
        with open(folder / RECEIPTS / stage / f"{writer}-0.log", "wb") as log:
            for unit in range(writer, units - 1, WRITERS):
                log.write(b"\n%s\n" % log_line(str(unit), encode_receipt(unit)))


def encode_receipt(unit: int) -> dict[str, object]:
    names = (f"{unit}.edges", f"{unit}.0.tokens", f"{unit}.0.rows")
    return {
        "parts": [
            {"name": f"{unit}.0", "tokens": 8 << 20, "rows": 9000, "continues": True, "open": True}
        ],
        "counts": {"bytes_in": UNIT_BYTES, "characters": UNIT_BYTES, "documents_in": 9000},
        "dropped": {},
        "documents_by_source": [9000],
        "places": [],
        "begins_inside": True,
        "head": 0,
        "head_complete": True,
        "head_closes": False,
        "head_had_text": True,
        "tail": 0,
        "tail_had_text": True,
        "open": True,
        "open_has_rows": True,
        "before_tail": "616263",
        "dropped_lines": 17,
        "files": {name: [0, HASH] for name in names},
    }


def preparation(folder: Path, units: int) -> dict[str, dict[str, float]]:
    """Plan, status, and a part whose tasks are done."""
    make_inputs(folder / "texts", units)
    found, run = {}, folder / "run"
    command = ("-c", COMMAND)
    options = ("--dedup", "none", "--quiet", "--tokens_per_shard", "100000000")
    found["plan"] = cost(*command, "plan", str(folder / "texts"), "-o", str(run), *options)
    leave_receipts(run, "units", units)
    found["status"] = cost(*command, "status", str(run))
    # The last unit is missing, and belongs to another part: this one has nothing to do.
    part = f"{units % WRITERS}/{WRITERS}"
    for unit in range(units % WRITERS, units - 1, WRITERS):
        for name in encode_receipt(unit)["files"]:
            (run / ".preparation" / "units" / name).touch()
    found["idle part"] = cost(*command, "work", str(run), "--part", part, "--quiet")
    return found


def make_dataset(folder: Path, shards: int) -> None:
    """A dataset of sparse shards of the usual size."""
    tokenizer = load("gpt2")
    state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
    (folder / "train").mkdir(parents=True)
    (folder / "tokenizer_state.json").write_bytes(state)
    entries = []
    for number in range(shards):
        name = f"train/shard_{number:05d}"
        for path, size in ((f"{name}.bin", 2 * TOKENS), (f"{name}.ends", 8 * 1000)):
            with open(folder / path, "wb") as file:
                file.truncate(size)
        ends = EndsEntry(f"{name}.ends", 1000, 8000, f"{number:032x}")
        entries.append(ShardEntry(f"{name}.bin", TOKENS, 2 * TOKENS, f"{number:032x}", ends))
    splits = {"train": SplitEntry.of(tuple(entries))}
    Manifest("uint16", TokenizerEntry.of(tokenizer, state), TOKENS, splits).write(folder)


class StageTimes(Progress):
    """CPU seconds of each stage of a preparation in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def follow(self, what, results, **options):
        began = time.process_time()
        yield from results
        self.seconds[what] = time.process_time() - began


def stages(folder: Path, corpus: Path | None, megabytes: int) -> dict[str, float]:
    """CPU seconds per 100 MB of text, by stage."""
    size = write_text(documents(corpus), folder / "corpus.txt", megabytes)
    times, began = StageTimes(), time.process_time()
    tokenmill.prepare(
        folder / "corpus.txt",
        folder / "prepared",
        separator="<|endoftext|>",
        tokens_per_shard=1_000_000,
        workers=1,
        run=Run(unit_bytes=size // 600, progress=times),
    )
    times.seconds["all"] = time.process_time() - began
    return {what: round(seconds * 1e8 / size, 3) for what, seconds in times.seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=300_000)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--corpus", type=Path, help="text; by default Python's own modules")
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = {
            "machine": machine(),
            "units": options.units,
            "terabytes": round(options.units * UNIT_BYTES / 1e12, 2),
            **preparation(folder, options.units),
        }
        make_dataset(folder / "dataset", options.shards)
        found["shards"] = options.shards
        arguments = (FIRST_BATCH, str(folder / "dataset"), "8", "1024", "first")
        for name, command in {"open and first batch": arguments, "numpy alone": NUMPY}.items():
            runs = [cost(*command)["cpu_seconds"] for _ in range(5)]
            found[name] = {"cpu_seconds": min(runs)}
        corpora = {
            "Python's modules": None,
            **({"corpus": options.corpus} if options.corpus else {}),
        }
        for name, corpus in corpora.items():
            with tempfile.TemporaryDirectory() as work:
                costs = stages(Path(work), corpus, options.megabytes)
            found[f"CPU seconds per 100 MB, {name}"] = costs
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
