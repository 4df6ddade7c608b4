"""What does it cost to take texts from where they are? Against files on the disk, in one run.

    python bench/inputs.py --corpus english.txt --megabytes 400

*Texts in memory*: `tokenmill.prepare` of an iterator, a list and tables of the texts of a file of
JSON lines, against that file; each in a process of its own that holds the texts before the time is
measured. *The hub*: the whole command `tokenmill prepare` of parquet at hf://, against the same
files in a folder. The hub is the one of the tests, in a process of its own, with 50 ms before each
answer; a file is reached through a redirect, as on the real hub. *Numbers of a loader*: what
counting waits and stages takes of making a batch. Cases run in turns; the best ratio of neighbours
and the median count, and on a busy machine those of CPU seconds. All must write the same tokens.
Results: results/inputs.json
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import orjson
import pyarrow
from measure import Run, machine, run
from pyarrow import parquet

import tokenmill
from tokenmill.base import stalls
from tokenmill.base.histogram import Histogram

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "inputs.json"
REPO = "ann/corpus"
LATENCY = 0.05  # seconds
FILES = 8
HOLDERS = ("iterator", "list", "pyarrow", "pandas", "polars", "datasets")


def main() -> None:
    options = parse()
    if options.serve:
        serve(options.serve)
    elif options.hold:
        print(json.dumps(seconds_of(*options.hold)))
    else:
        measure(options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="text, documents ended by <|endoftext|>")
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("memory", "hub", "stats"))
    parser.add_argument("--folder", help="where temporary files go")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--hold", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(options: argparse.Namespace) -> None:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found["machine"] = machine()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.only != "stats":
            rows = make_files(folder, options)
        if options.only in (None, "memory"):
            size = {"megabytes": options.megabytes}
            found["texts in memory"] = {**size, **in_memory(folder, rows, options.rounds)}
        if options.only in (None, "hub"):
            found["hub"] = {"megabytes": options.megabytes, **from_hub(folder, options.rounds)}
    if options.only in (None, "stats"):
        found["numbers of a loader"] = share_of_counting()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def make_files(folder: Path, options: argparse.Namespace) -> Path:
    """Write the corpus as JSON lines, and as parquet files."""
    docs = corpus.documents(options.corpus)
    corpus.write_jsonl(docs, folder, options.megabytes, 1)
    (rows,) = folder.glob("*.jsonl")
    texts = texts_of(rows)
    (folder / "data").mkdir()
    for number in range(FILES):
        table = pyarrow.table({"text": texts[number::FILES]})
        parquet.write_table(table, folder / "data" / f"{number}.parquet", row_group_size=2000)
    return rows


def texts_of(rows: Path) -> list[str]:
    return [orjson.loads(line)["text"] for line in rows.read_bytes().splitlines()]


def hash_of(out: Path) -> str:
    """A hash of all shards, in order."""
    hasher = hashlib.sha256()
    for path in sorted(out.rglob("shard_*.bin")):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def in_memory(folder: Path, rows: Path, rounds: int) -> dict[str, Any]:
    """Each holder in turns with the file."""
    ratios: dict[str, list[float]] = {holder: [] for holder in HOLDERS}
    for _ in range(rounds):
        for holder in HOLDERS:
            (file, expected), (held, digest) = (
                hold(kind, rows, folder / "out") for kind in ("file", holder)
            )
            if digest != expected:
                raise RuntimeError(f"{holder}: other tokens than those of the file")
            ratios[holder].append(file / held)
            print(f"{holder}: {file / held:.2f} of the file's speed ({held:.2f} s)", flush=True)
    return {holder: summary(found) for holder, found in ratios.items()}


def hold(kind: str, rows: Path, out: Path) -> list[Any]:
    """Seconds that preparing takes in a new process, and a hash of what it wrote."""
    command = [sys.executable, __file__, "--hold", kind, str(rows), str(out)]
    seconds = json.loads(run(command).output.splitlines()[-1])
    return [seconds, take(out)]


def take(out: Path) -> str:
    """Hash a dataset and remove it."""
    digest = hash_of(out)
    subprocess.run(["rm", "-r", out], check=True)
    return digest


def seconds_of(kind: str, rows: str, out: str) -> float:
    """What a process does that holds the texts."""
    inputs: Any = rows if kind == "file" else texts_of(Path(rows))
    if kind == "iterator":
        inputs = iter(inputs)
    elif kind == "pyarrow":
        inputs = pyarrow.table({"text": inputs})
    elif kind in ("pandas", "polars"):
        inputs = __import__(kind).DataFrame({"text": inputs})
    elif kind == "datasets":
        inputs = __import__(kind).Dataset.from_dict({"text": inputs})
    began = time.perf_counter()
    tokenmill.prepare(inputs, out, tokenizer="gpt2")
    return time.perf_counter() - began


def from_hub(folder: Path, rounds: int) -> dict[str, Any]:
    """The whole command, in turns with the same of the folder."""
    ratios = []
    of_cpu = []
    with served(folder) as environment:
        for _ in range(rounds):
            local, there = folder / "local", folder / "there"
            address = f"hf://datasets/{REPO}/data/*.parquet"
            near = prepare(str(folder / "data"), local, environment)
            far = prepare(address, there, environment)
            if take(local) != take(there):
                raise RuntimeError("the hub: other tokens than those of the folder")
            ratios.append(near.seconds / far.seconds)
            of_cpu.append(near.cpu_seconds / far.cpu_seconds)
            print(f"hub: {ratios[-1]:.2f} of the folder's speed, {far}", flush=True)
    latency = {"seconds before each answer": LATENCY}
    return {**latency, **summary(ratios), "by CPU seconds": summary(of_cpu)}


def prepare(inputs: str, out: Path, environment: dict[str, str]) -> Run:
    command = [sys.executable, "-m", "tokenmill", "prepare", inputs, "-o", str(out), "--quiet"]
    return run(command, env=environment)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[dict[str, str]]:
    """The hub in a process of its own, and the variables by which it is found."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        home = {"HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_XET": "1"}
        yield {"HF_ENDPOINT": endpoint, **home}
    finally:
        server.kill()
        server.wait()


def serve(folder: Path) -> None:
    """Serve the parquet files until killed."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from hub import fake_hub

    fake_hub.describe = functools.cache(fake_hub.describe)  # else it hashes for each answer
    with fake_hub.fake_hub() as hub:
        files = sorted((folder / "data").iterdir())
        hub.commit(REPO, {f"data/{path.name}": path.read_bytes() for path in files})
        for path in files:
            fake_hub.describe(f"data/{path.name}", path.read_bytes())
        hub.latency = LATENCY
        print(hub.endpoint, flush=True)
        while os.getppid() != 1:
            time.sleep(1)


def summary(ratios: list[float]) -> dict[str, float]:
    return {"best": round(max(ratios), 2), "median": round(statistics.median(ratios), 2)}


def share_of_counting() -> dict[str, float]:
    """The calls that count, for a batch, times what each takes, of the time for a batch."""
    data = tokenmill.from_array(np.arange(50_000_000, dtype=np.uint32) % 50_000)
    found = {}
    for rows, length in ((8, 256), (8, 1024), (64, 1024)):
        loader = tokenmill.BatchLoader(data, batch_size=rows, block_size=length)
        seconds = min(seconds_a_batch(loader) for _ in range(20))
        before = count_all(loader)
        steps = 2000
        for _ in range(steps):
            next(loader)
        calls = (count_all(loader) - before) / steps
        loader.close()
        found[f"{rows} rows of {length:,}"] = round(100 * calls * seconds_a_call() / seconds, 3)
    print(f"counting takes, in % of a batch: {found}")
    return {"percent of a batch": found, "microseconds a call": round(1e6 * seconds_a_call(), 2)}


def seconds_a_batch(loader: tokenmill.BatchLoader, steps: int = 500) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        next(loader)
    return (time.perf_counter() - began) / steps


def count_all(loader: tokenmill.BatchLoader) -> int:
    return sum(times["count"] for times in loader.stats()["stages"].values())


def seconds_a_call() -> float:
    """The best of many: a stage that does nothing, with what it waits for and its times."""
    times, best = Histogram(), 1.0
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(200):
            with stalls.waiting_for("nothing", times):
                pass
        best = min(best, (time.perf_counter() - began) / 200)
    return best


if __name__ == "__main__":
    main()
