"""What do edits cost? Loading with a million banned documents and 100 edits, against none.

    python bench/edits.py

The tokens are sparse files in memory (/dev/shm), 1,000 tokens a document on average: 10^12 tokens
in 10^9 documents, of which a million are banned, one in a thousand. Then the same million among
10^7 documents: there every batch has banned targets. Besides the large ban there are small ones,
skips and, in a mixture of two sources, other weights: 100 edits, each from another step on.

Loaders with and without edits run in turns, in one process, 8 rows of 1024 (the default of
BatchLoader) or 64, shuffled; a turn takes some batches and unpacks them, from the step on where all
edits hold. A third loader has touched the same pages before. CPU time of all turns counts. `arrays`
are batches of BatchLoader, `tensors` those of TorchLoader, which copies inputs and targets in any
case. Also: the time of the large edit with the first batch after it, the time to resume from a
state with all edits, and memory.
Results go to bench/results/edits.json; ratios are what counts.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, own_memory

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.edits import Ban, Reweight, Skip
from tokenmill.torch import TorchLoader

HERE = Path(__file__).parent
NUM_EDITS = 100
MOST_IN_A_FILE = 20_000_000  # documents
BLOCK_SIZE = 1024


def main() -> None:
    options = parse()
    results: dict[str, Any] = {"machine": machine(), **vars(options)}
    del results["folder"]
    with tempfile.TemporaryDirectory(dir=options.folder) as top:
        for documents in options.documents:
            folder = Path(top) / str(documents)
            data = write_tokens(folder, documents)
            found = results[f"{documents:.0e} documents"] = {}
            banned = write_banned(folder / "banned.txt", documents, options.banned)
            for kind, rows, make in kinds(data, documents == options.documents[0]):
                name = f"{kind} of {rows} rows"
                found[name] = measure(make, rows, banned, documents, options)
                print(f"{documents:,} documents, {name}: {shown(found[name])}", flush=True)
            shutil.rmtree(folder)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "edits.json").write_text(json.dumps(results, indent=2) + "\n")


def write_tokens(folder: Path, documents: int) -> tokenmill.TokenDataset:
    """Sparse files with an index of documents as datatrove has it; all are links to one of them."""
    folder.mkdir()
    in_a_file = min(documents, MOST_IN_A_FILE)
    drawn = np.random.default_rng(0).normal(6.2, 1.2, in_a_file)
    ends = np.cumsum(np.maximum(1, np.exp(drawn)).astype(np.int64))
    first = folder / "part_0000.ds"
    ends.astype(np.uint64).tofile(f"{first}.index")
    with first.open("wb") as tokens:
        tokens.truncate(2 * int(ends[-1]))
    for number in range(1, documents // in_a_file):
        for suffix in ("", ".index"):
            os.link(f"{first}{suffix}", folder / f"part_{number:04}.ds{suffix}")
    return tokenmill.open(folder, split="all", dtype="uint16")


def write_banned(path: Path, documents: int, count: int) -> Path:
    chosen = np.random.default_rng(1).choice(documents, count, replace=False, shuffle=False)
    path.write_text("\n".join(map(str, chosen.tolist())))
    return path


def kinds(data: tokenmill.TokenDataset, all_of_them: bool) -> Iterator[tuple[str, int, Any]]:
    """What is compared, the rows of a batch, and what makes a loader of it."""
    shape: dict[str, Any] = {
        "batch_size": 8,
        "block_size": BLOCK_SIZE,
        "form": BatchForm(prefetch=0),
    }
    wide = {**shape, "batch_size": 64}
    yield "arrays", 8, lambda: tokenmill.BatchLoader(data, **shape)
    yield "tensors", 8, lambda: TorchLoader(data, rank=0, world_size=1, **shape)
    yield "arrays", 64, lambda: tokenmill.BatchLoader(data, **wide)
    if all_of_them:
        mixture = tokenmill.Mixture({"data": data, "more": data}, weights={"data": 3, "more": 1})
        yield "mixture", 8, lambda: tokenmill.BatchLoader(mixture, **shape)


def measure(
    make: Callable[[], Any], rows: int, banned: Path, documents: int, options: argparse.Namespace
) -> dict[str, float]:
    ahead, plain, edited = make(), make(), make()
    found = edit_all(getattr(edited, "loader", edited), banned, documents)
    plain.load_state_dict(plain.state_dict())  # both compute positions at the same batches
    in_a_turn, with_bans = options.rows // rows, 0
    take(ahead, 4 * NUM_EDITS)
    for loader in (ahead, plain, edited):
        take(loader, in_a_turn)
    seconds = {"plain": 0.0, "edited": 0.0}
    loaders = [("plain", plain), ("edited", edited)]
    for _ in range(options.turns):
        take(ahead, in_a_turn)
        loaders.reverse()
        for name, loader in loaders:
            began = time.process_time()
            masked = take(loader, in_a_turn)
            seconds[name] += time.process_time() - began
            with_bans += masked if name == "edited" else 0
    return {
        "ratio": seconds["plain"] / seconds["edited"],
        "tokens_per_s_without": options.turns * options.rows * BLOCK_SIZE / seconds["plain"],
        "batches_with_banned_targets": with_bans / (options.turns * in_a_turn),
        **found,
    }


def edit_all(loader: tokenmill.BatchLoader, banned: Path, documents: int) -> dict[str, float]:
    """Make all edits; the time of the large one with the first batch, and of resuming."""
    next(loader)
    before, began = own_memory(os.getpid()), time.perf_counter()
    loader.edit(Ban(documents=banned, source="data"))
    next(loader)
    first_batch = time.perf_counter() - began
    memory = own_memory(os.getpid()) - before
    random = np.random.default_rng(2)
    for number in range(1, NUM_EDITS):
        at = loader.step + number
        edit: Any = Skip(steps=(at, at + 2))
        if number % 3 == 1:
            edit = Ban(documents=random.integers(0, documents, 10).tolist(), source="data")
        elif number % 3 == 2 and len(loader.names) > 1:
            # The last one restores the weights, so that both loaders read the same windows.
            edit = Reweight({"data": 3, "more": 1 + number % 2})
        loader.edit(edit, **({} if isinstance(edit, Skip) else {"at": at}))
    state, began = loader.state_dict(), time.perf_counter()
    loader.load_state_dict(state)
    next(loader)
    return {
        "seconds_of_edit_and_batch": first_batch,
        "seconds_to_resume": time.perf_counter() - began,
        "own_memory_mb": memory / 1e6,
        "bytes_of_state": len(json.dumps(state)),
    }


def take(loader: Any, batches: int) -> int:
    """Take and unpack some batches; how many of them have banned targets."""
    masked = 0
    for _ in range(batches):
        batch = next(loader)
        _inputs, _targets = batch
        runs = batch.loss_mask if isinstance(loader, TorchLoader) else batch.banned
        masked += runs is not None
    return masked


def shown(found: dict[str, float]) -> str:
    return (
        f"{found['ratio']:.3f} of {found['tokens_per_s_without'] / 1e6:,.0f} million tokens/s, "
        f"{found['batches_with_banned_targets']:.0%} of batches with banned targets; edit and "
        f"first batch {found['seconds_of_edit_and_batch']:.2f} s, resume with {NUM_EDITS} edits "
        f"{found['seconds_to_resume']:.2f} s, {found['own_memory_mb']:.0f} MB"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000_000_000, 10_000_000])
    parser.add_argument("--banned", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=1 << 16, help="in one turn")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--folder", type=Path, default="/dev/shm", help="for sparse files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
