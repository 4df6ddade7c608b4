"""What do rows of whole documents cost? Against windows, against other projects, and for 10^8.

    python bench/rows.py                        # 50 million tokens, 32 rows of 2048
    python bench/rows.py --venvs ENVS --sparse_documents 0

Documents have log-normal lengths, 1,000 tokens on average. Packed rows run in turns with windows
that say where documents are (`documents=True`): the same tokens, the same fields read. Then the
same for documents of 50 tokens in rows of 512, about ten of them in each. TRL and
Grain pack the same documents in their own way, each in an environment of its own. Then the plan of
a billion documents is made from a histogram of their lengths; and for a sparse file of 10^8
documents the index is built from their ends, and the first batch is made with the index there.
Results go to bench/results/rows.json; ratios are what counts.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import environments
import numpy as np
from measure import machine, run

import tokenmill
from tokenmill.batches.batch_form import BatchForm
from tokenmill.order.document_pieces import DocumentPieces
from tokenmill.order.recipes import pack

HERE = Path(__file__).parent
RIVALS = HERE / "rivals"
END_OF_TEXT = 50256
USUAL = (6.2, 1.2)  # mean and deviation of the logarithm of a length: 1,000 tokens on average
SHORT = (3.7, 0.6)  # 50 tokens


def main() -> None:
    options = parse()
    results: dict[str, object] = {"machine": machine(), **vars(options)}
    results["folder"] = results["venvs"] = None
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        path = write_tokens(folder, options.tokens)
        best = results["against_windows"] = against_windows(path, options, options.block_size)
        short = write_tokens(folder, options.tokens, SHORT)
        results["short_documents"] = against_windows(short, options, 512)
        if not options.no_peers:
            results["against_peers"] = against_peers(path, best["packed"], options)
        results["plan"] = plan(options.planned_documents, options.block_size)
        if options.sparse_documents:
            results["sparse"] = sparse(folder, options)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "rows.json").write_text(json.dumps(results, indent=2) + "\n")


def lengths_of(num_documents: int, shape: tuple[float, float] = USUAL) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(*shape, num_documents)
    return np.maximum(1, np.exp(drawn)).astype(np.int64)


def write_tokens(folder: Path, num_tokens: int, shape: tuple[float, float] = USUAL) -> Path:
    """Documents one after the other, with an index of their ends as datatrove has it."""
    average = np.exp(shape[0] + shape[1] ** 2 / 2)
    ends = np.cumsum(lengths_of(int(num_tokens / (0.9 * average)), shape))
    ends = ends[ends <= num_tokens]
    ids = np.random.default_rng(1).integers(0, 50_000, int(ends[-1])).astype(np.uint16)
    ids[ends - 1] = END_OF_TEXT
    path = folder / f"tokens_{shape[0]}.ds"
    ids.tofile(path)
    ends.astype(np.uint64).tofile(f"{path}.index")
    return path


def against_windows(path: Path, options: argparse.Namespace, block_size: int) -> dict[str, float]:
    """Tokens a second of CPU time, the best of some turns, and the ratio of the two."""
    data = tokenmill.open(path, split="all", dtype="uint16", end_of_text=END_OF_TEXT)
    shape = {"batch_size": options.batch_size, "block_size": block_size}
    shape["form"] = BatchForm(prefetch=0)
    loaders = {
        "windows": tokenmill.BatchLoader(data, documents=True, **shape),
        "packed": tokenmill.BatchLoader(data, rows="packed", **shape),
    }
    best = dict.fromkeys(loaders, 0.0)
    for _ in range(options.rounds):
        for name, loader in loaders.items():
            best[name] = max(best[name], speed(loader, options.batches))
    found = {**best, "ratio": best["packed"] / best["windows"]}
    print(f"packed: {best['packed'] / 1e6:,.0f} million tokens/s, {found['ratio']:.2f} of windows")
    return found


def speed(loader: tokenmill.BatchLoader, batches: int) -> float:
    began = time.process_time()
    for _ in range(batches):
        batch = next(loader)
        _ = batch.inputs, batch.targets, batch.cu_seqlens, batch.max_seqlen, batch.loss_mask
    return batches * batch.inputs.size / (time.process_time() - began)


def against_peers(path: Path, ours: float, options: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {}
    size = [str(options.batch_size), str(options.block_size), str(options.seconds)]
    for name in ("grain", "trl"):
        python = environments.python_of(name, options.venvs)
        if python is None:
            found[name] = "skipped: its environment could not be made"
            continue
        command = [str(python), str(RIVALS / f"rows_{name}.py"), str(path), *size]
        try:
            printed = run(command, env={"PYTHONPATH": str(RIVALS)}).output.splitlines()[-1]
        except RuntimeError as error:
            found[name] = f"failed: {str(error).splitlines()[-1]}"
            continue
        theirs = json.loads(printed)["tokens_per_s"]
        found[name] = {"tokens_per_s": theirs, "we_are_faster": ours / theirs}
        print(f"{name}: {theirs / 1e6:,.1f} million tokens/s; we are {ours / theirs:,.1f} x faster")
    return found


def plan(num_documents: int, block_size: int) -> dict[str, float]:
    """From a histogram of lengths to the table of recipes."""
    lengths, counts = np.unique(lengths_of(1_000_000), return_counts=True)
    began = time.perf_counter()
    pieces = DocumentPieces(
        lengths, counts * (num_documents // 1_000_000), block_size=block_size, begin=False
    )
    recipes = pack(
        pieces.lengths.tolist(), pieces.count_of[pieces.lengths].tolist(), block_size + 1
    )
    seconds = time.perf_counter() - began
    space = recipes.num_rows * (block_size + 1)
    found = {
        "documents": num_documents,
        "seconds": seconds,
        "recipes": len(recipes.row_starts) - 1,
        "padding": (space - pieces.num_tokens) / space,
    }
    print(f"plan of {num_documents:,} documents: {seconds:.3f} s, {found['recipes']:,} recipes")
    return found


def sparse(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Build the index of many documents, then make the first batch with it there."""
    path, end = folder / "sparse.ds", 0
    with open(f"{path}.index", "wb") as index:
        for at in range(0, options.sparse_documents, 10_000_000):
            ends = end + np.cumsum(lengths_of(min(10_000_000, options.sparse_documents - at)))
            ends.astype(np.uint64).tofile(index)
            end = int(ends[-1])
    with path.open("wb") as tokens:
        tokens.truncate(2 * end)
    command = [sys.executable, str(HERE / "first_rows.py"), str(path)]
    command += [str(options.batch_size), str(options.block_size)]
    env = {"XDG_CACHE_HOME": str(folder / "cache")}
    first, again = (json.loads(run(command, env=env).output.splitlines()[-1]) for _ in range(2))
    rate = first["documents"] / first["seconds_index"]
    print(
        f"index of {first['documents']:,} documents: {rate / 1e6:,.1f} million documents/s; "
        f"first batch with it {again['seconds']:.2f} s ({again['cpu_seconds']:.2f} s of CPU), "
        f"{again['own_mb']:.0f} MB"
    )
    return {"documents_per_s": rate, "building": first, "with_the_index": again}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--block_size", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=500, help="in one turn")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each peer")
    parser.add_argument("--planned_documents", type=int, default=1_000_000_000)
    parser.add_argument("--sparse_documents", type=int, default=100_000_000)
    parser.add_argument("--no_peers", action="store_true")
    parser.add_argument("--folder", type=Path, help="for files of the benchmark")
    parser.add_argument("--venvs", type=Path, help="environments of the peers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
