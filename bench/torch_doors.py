"""Batches a second of the doors to torch, against BatchLoader, in one run.

python bench/torch_doors.py [FILE.npy]

All give two contiguous int64 tensors on the CPU, 64 rows of 1024, except BatchLoader itself, whose
halves are views of one array. Each way runs in turns; the best round of each counts, since other
work on the machine only slows. Results go to bench/results/torch_doors.json.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from measure import machine
from torch.utils.data import DataLoader

import tokenmill
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

RESULTS = Path(__file__).parent / "results" / "torch_doors.json"
SECONDS, ROUNDS = 0.4, 7
ROWS, BLOCK = 64, 1024
SHAPE = {"batch_size": ROWS, "block_size": BLOCK}


def ways_of(data):
    """The name of a way -> what makes an iterator of it."""
    return {
        "BatchLoader": lambda: tokenmill.BatchLoader(data, **SHAPE),
        "TorchLoader": lambda: TorchLoader(data, **SHAPE),
        "TokenDataLoader": lambda: TokenDataLoader(data, **SHAPE, epochs=None),
        "TokenDataLoader, 2 workers": lambda: TokenDataLoader(
            data, **SHAPE, epochs=None, num_workers=2
        ),
        "DataLoader(WindowsDataset)": lambda: DataLoader(
            WindowsDataset(data, block_size=BLOCK), batch_size=ROWS
        ),
        "DataLoader(WindowsDataset), 2 workers": lambda: DataLoader(
            WindowsDataset(data, block_size=BLOCK), batch_size=ROWS, num_workers=2
        ),
    }


def batches_a_second(batches) -> float:
    for _ in range(20):  # what happens once does not count, such as starting workers
        next(batches)
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        next(batches)
        count += 1
    return count / took


def main() -> None:
    if len(sys.argv) > 1:
        data = tokenmill.open(sys.argv[1])
    else:
        ids = np.random.default_rng(0).integers(0, 50257, 200_000_000).astype(np.uint16)
        data = tokenmill.from_array(ids)
    ways = ways_of(data)
    best = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            best[name] = max(best[name], batches_a_second(iter(way())))
    found = {
        name: {"batches_a_second": speed, "ratio": speed / best["BatchLoader"]}
        for name, speed in best.items()
    }
    for name, each in found.items():
        print(f"{name}: {each['batches_a_second']:,.0f} batches/s, {each['ratio']:.3f}")
    RESULTS.write_text(json.dumps({"machine": machine(), **SHAPE, "doors": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
