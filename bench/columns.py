"""How much do columns cost? Batches of the same tokens with and without them, in one run.

    python bench/columns.py                   # 100 million tokens, 64 rows of 1024

Each case is timed in turns with the plain one, on the same machine and data, and the median of the
ratios of neighbouring turns is what counts. `labels` is what a loop does with a mask: the plain
loop takes `targets` as int64, the other one `labels`. Results go to bench/results/columns.json.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import machine

import tokenmill

HERE = Path(__file__).parent
TURNS = 15
SECONDS = 0.4  # of one turn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--document", type=int, default=1000)
    options = parser.parse_args()
    results: dict[str, object] = {"machine": machine(), "tokens": options.tokens, "ratios": {}}
    with tempfile.TemporaryDirectory() as name:
        for column in ("loss", "weights"):
            path = Path(name) / column
            tokenmill.write_tokens(documents(options, column), path, tokenizer="gpt2")
            for rows in ("windows", "packed"):
                for use in ("gather", "labels"):
                    ratio = compare(path, rows, use)
                    results["ratios"][f"{column}, {rows}, {use}"] = round(ratio, 3)
                    print(f"{column:8} {rows:8} {use:7} {ratio:.3f} of the speed without")
    (HERE / "results" / "columns.json").write_text(json.dumps(results, indent=1) + "\n")


def documents(options: argparse.Namespace, column: str):
    random = np.random.default_rng(0)
    for _ in range(options.tokens // options.document):
        ids = random.integers(0, 50_256, options.document)
        turns = np.arange(options.document) // 100 % 2
        yield {"ids": ids, column: turns == 1 if column == "loss" else turns / 2}


def compare(path: Path, rows: str, use: str) -> float:
    sources = [tokenmill.open(path, columns=[]), tokenmill.open(path)]
    loaders = [
        tokenmill.BatchLoader(data, batch_size=64, block_size=1024, rows=rows) for data in sources
    ]
    for loader in loaders:
        turn(loader, use, 2 * SECONDS)
    ratios = []
    for _ in range(TURNS):
        without, with_it = (turn(loader, use, SECONDS) for loader in loaders)
        ratios.append(with_it / without)
    for loader in loaders:
        loader.close()
    return statistics.median(ratios)


def turn(loader: tokenmill.BatchLoader, use: str, seconds: float) -> float:
    """Batches per second."""
    began = time.perf_counter()
    count = 0
    while (passed := time.perf_counter() - began) < seconds:
        batch = next(loader)
        if use == "labels":
            batch.labels  # noqa: B018 - it is computed here
        count += 1
    return count / passed


if __name__ == "__main__":
    main()
