"""Batches a second of TorchLoader: contiguous halves, as it makes them, against two views.

python bench/torch_doors.py [FILE.npy]
"""

import json
import sys
import time

import numpy as np
import torch

import tokenmill
from tokenmill.torch import TorchLoader

SECONDS, ROUNDS, SHAPE = 0.5, 5, {"batch_size": 64, "block_size": 1024}


def views(data):
    """What the loader gave before: the window widened once, and two views of it."""
    for batch in tokenmill.BatchLoader(data, **SHAPE):
        window = torch.from_numpy(batch.tokens)
        yield window[:, :-1], window[:, 1:]


def copied(data):
    """What a user of the views does: make both contiguous."""
    for inputs, targets in views(data):
        yield inputs.contiguous(), targets.contiguous()


def batches_a_second(batches) -> float:
    next(batches)
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        next(batches)
        count += 1
    return count / took


def main() -> None:
    """Each in turns, the best round of each: other work on the machine only slows."""
    if len(sys.argv) > 1:
        data = tokenmill.open(sys.argv[1])
    else:
        ids = np.random.default_rng(0).integers(0, 50257, 10_000_000).astype(np.uint16)
        data = tokenmill.from_array(ids)
    ways = {"contiguous": lambda: TorchLoader(data, **SHAPE), "views": lambda: views(data)}
    ways["views, then .contiguous()"] = lambda: copied(data)
    best = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            best[name] = max(best[name], batches_a_second(iter(way())))
    print(json.dumps({**SHAPE, "batches_a_second": best}, indent=2))


if __name__ == "__main__":
    main()
