"""How fast are batches? Compared with NumPy alone and with other projects, in one run.

    python bench/load.py                      # 200 million tokens, 64 rows of 1024
    python bench/load.py --venvs ENVS --no-sparse

The limit is a loop in C (limit.c, built here with `cc -O3`) that copies the same windows out of one
map and widens them to int64: nothing else, no order, no state. Ours runs shuffled, with exact state
and prefetching on, over one file and over shards of 10 million tokens; documents are found by the
end-of-text id, or by an index. The peers read the same tokens in the form they are made for, each
in an environment of its own, each with and without worker processes where it has them. The second
part opens sparse files of 10 billion and 1 trillion tokens and asks for the first batch, and for
the one of the last step. Results go to bench/results/load.json; ratios are what counts.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import environments
import numpy as np
from measure import machine, run

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.order.permutation import shuffle

HERE = Path(__file__).parent
RIVALS = HERE / "rivals"
END_OF_TEXT = 50256
SHARD = 10_000_000
LIMIT_OF_TWO = "limit of two arrays"
BATCHES = 1000  # in one turn: so many that what happens once at its start does not count

# Name of the script, its environment (None: this one), and the numbers of workers to try.
PEERS: dict[str, tuple[str | None, list[int | None]]] = {
    "nanogpt": (None, [None]),
    "torch": (None, [0, 2]),
    "megatron": ("megatron", [0, 2]),
    "mosaic": ("mosaic", [0, 2]),
    "litdata": ("litdata", [0, 2]),
    "grain": ("grain", [-16, -2, 0, 2]),  # below 0: reading threads, which it recommends
}


def main() -> None:
    options = parse()
    results: dict[str, object] = {
        "machine": machine(),
        "batch_size": options.batch_size,
        "block_size": options.block_size,
        "tokens": options.tokens,
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        one_file = write_tokens(folder, options.tokens)
        ours = results["against_the_limit"] = against_the_limit(folder, options)
        if not options.no_peers:
            best = ours["one file"]["tokens_per_s"]
            results["against_peers"] = against_peers(one_file, folder, best, options)
        if not options.no_sparse:
            results["first_batch"] = first_batches(folder, options)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "load.json").write_text(json.dumps(results, indent=2) + "\n")


def write_tokens(folder: Path, num_tokens: int) -> Path:
    """Tokens as in text (few ids often, documents of some hundreds): one file, and shards."""
    rng = np.random.default_rng(0)
    path = folder / "train.bin"
    (folder / "shards").mkdir()
    with path.open("wb") as whole:
        for i, start in enumerate(range(0, num_tokens, SHARD)):
            size = min(SHARD, num_tokens - start)
            ids = (rng.random(size) ** 3 * 50_000).astype(np.uint16)
            ids[rng.integers(0, size, size // 700)] = END_OF_TEXT
            whole.write(ids.tobytes())
            ids.tofile(folder / "shards" / f"train_{i:05}.bin")
    indexed = folder / "indexed.ds"  # as datatrove has it
    indexed.hardlink_to(path)
    ends = np.flatnonzero(np.memmap(path, np.uint16, mode="r")[:-1] == END_OF_TEXT) + 1
    np.append(ends, num_tokens).astype(np.uint64).tofile(f"{indexed}.index")
    return path


def against_the_limit(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All run alternately, so that other work on the machine slows down each of them."""
    known = {"split": "all", "dtype": "uint16", "end_of_text": END_OF_TEXT}
    one = tokenmill.open(folder / "train.bin", **known)
    many = tokenmill.open(folder / "shards", **known)
    indexed = tokenmill.open(folder / "indexed.ds", split="all", dtype="uint16")
    shape = {"batch_size": options.batch_size, "block_size": options.block_size}
    loaders: dict[str, tokenmill.BatchLoader] = {
        "one file": tokenmill.BatchLoader(one, **shape),
        "shards of 10 million": tokenmill.BatchLoader(many, **shape),
        "one file, documents=True": tokenmill.BatchLoader(one, documents=True, **shape),
        "one file, documents=True, all fields read": tokenmill.BatchLoader(
            one, documents=True, **shape
        ),
        "one file, documents=True, by an index": tokenmill.BatchLoader(
            indexed, documents=True, **shape
        ),
        "one file, documents=True, by an index, all fields read": tokenmill.BatchLoader(
            indexed, documents=True, **shape
        ),
        "one file, two arrays": tokenmill.BatchLoader(one, form=BatchForm(halves=True), **shape),
        "one file, dtype=uint16": tokenmill.BatchLoader(
            one, form=BatchForm(dtype="uint16"), **shape
        ),
    }
    limit = Limit(folder, options)
    runs: dict[str, Callable[[], float]] = {
        "limit": limit.one_array,
        LIMIT_OF_TWO: limit.two_arrays,
    }
    runs |= {
        name: ours(loader, all_fields="all fields" in name) for name, loader in loaders.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(options.rounds + 1):
        for name, stretch in runs.items():
            passed = stretch()
            if turn:  # the first one warms the page cache
                seconds[name].append(passed)
    tokens = BATCHES * options.batch_size * options.block_size
    found: dict[str, dict[str, float]] = {}
    for name, times in seconds.items():
        limits = seconds[LIMIT_OF_TWO if "two arrays" in name else "limit"]
        pairs = zip(limits, times, strict=True)
        ratios = [least / passed for least, passed in pairs]
        found[name] = {
            "tokens_per_s": tokens / min(times),
            "ratio_of_best": min(limits) / min(times),
            "ratio_median": statistics.median(ratios),
        }
        print(
            f"{name}: {tokens / min(times) / 1e6:,.0f} million tokens/s, "
            f"{found[name]['ratio_of_best']:.2f} of the limit "
            f"(median of turns {found[name]['ratio_median']:.2f})"
        )
    for loader in loaders.values():
        loader.close()
    return found


class Limit:
    """The windows of the same shuffled order, known beforehand, copied and widened in C."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        library = folder / "limit.so"
        source = str(HERE / "limit.c")
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        self._library = ctypes.CDLL(str(library))
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._library.one_array.argtypes = [pointer, pointer, number, number, pointer]
        self._library.two_arrays.argtypes = [pointer, pointer, number, number, pointer, pointer]
        self._tokens = np.memmap(folder / "train.bin", np.uint16, mode="r")
        self._address = self._tokens.ctypes.data
        self._rows = options.batch_size
        self._length = options.block_size + 1
        self._position = 0

    def _starts(self) -> list[np.ndarray]:
        count = (len(self._tokens) - 1) // (self._length - 1)
        size = BATCHES * self._rows
        positions = np.arange(self._position, self._position + size) % count
        self._position += size
        starts = shuffle(positions, count, seed=0, epoch=0) * (self._length - 1)
        return list(starts.reshape(BATCHES, self._rows))

    def one_array(self) -> float:
        batches = self._starts()
        began = time.perf_counter()
        for starts in batches:
            out = np.empty((self._rows, self._length), np.int64)
            where = (self._address, starts.ctypes.data, self._rows, self._length)
            self._library.one_array(*where, out.ctypes.data)
        return time.perf_counter() - began

    def two_arrays(self) -> float:
        batches = self._starts()
        began = time.perf_counter()
        for starts in batches:
            inputs = np.empty((self._rows, self._length - 1), np.int64)
            targets = np.empty_like(inputs)
            where = (self._address, starts.ctypes.data, self._rows, self._length)
            self._library.two_arrays(*where, inputs.ctypes.data, targets.ctypes.data)
        return time.perf_counter() - began


def ours(loader: "tokenmill.BatchLoader", *, all_fields: bool) -> Callable[[], float]:
    def stretch() -> float:
        began = time.perf_counter()
        for _ in range(BATCHES):
            batch = next(loader)
            _ = batch.inputs, batch.targets, batch.cu_seqlens, batch.max_seqlen, batch.loss_mask
            if all_fields:
                _ = batch.document_ids, batch.positions
        loader.state_dict()
        return time.perf_counter() - began

    return stretch


def against_peers(
    path: Path, folder: Path, best: float, options: argparse.Namespace
) -> dict[str, object]:
    found: dict[str, object] = {}
    size = [str(options.batch_size), str(options.block_size), str(options.seconds)]
    for name, (environment, workers) in PEERS.items():
        python: Path | None = Path(sys.executable)
        if environment is not None:
            python = environments.python_of(environment, options.venvs)
        if python is None:
            found[name] = "skipped: its environment could not be made"
            continue
        theirs, problem = {}, ""
        for number in workers:
            extra = [] if number is None else [str(number), str(folder)]
            command = [str(python), str(RIVALS / f"load_{name}.py"), str(path), *size, *extra]
            try:
                lines = run(command, env={"PYTHONPATH": str(RIVALS)}).output.splitlines()
                theirs[str(number)] = float(json.loads(lines[-1])["tokens_per_s"])
            except (RuntimeError, ValueError, IndexError) as error:
                problem = str(error)[-400:]
        if not theirs:
            print(f"skipping {name}: {problem}", file=sys.stderr)
            found[name] = f"skipped: {problem}"
            continue
        fastest = max(theirs.values())
        found[name] = {"times_as_fast": best / fastest, "tokens_per_s_by_workers": theirs}
        print(
            f"{best / fastest:.1f} times as fast as {name} ({fastest / 1e6:,.0f} million tokens/s)"
        )
    return found


def first_batches(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {}
    for tokens in (10**10, 10**12):
        sparse = folder / f"sparse_{tokens}"
        sparse.mkdir()
        for i in range(100):
            with (sparse / f"train_{i:05}.bin").open("wb") as file:
                file.truncate(tokens // 100 * 2)
        for where in ("first", "last"):
            command = [sys.executable, str(HERE / "first_batch.py"), str(sparse)]
            done = run([*command, str(options.batch_size), str(options.block_size), where])
            said = json.loads(done.output.splitlines()[-1])
            found[f"{tokens:.0e} tokens, {where} step"] = said
            print(
                f"{tokens:.0e} tokens, {where} step: {said['seconds']:.3f} s to its batch "
                f"({said['seconds_with_import']:.3f} s with imports), "
                f"{said['own_memory_mb']:.0f} MB of own memory"
            )
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=200_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10, help="for each peer")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-sparse", action="store_true")
    parser.add_argument("--venvs", type=Path, help="where the peers' environments are or go")
    parser.add_argument("--folder", type=Path, help="where to work (default: the system's)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
