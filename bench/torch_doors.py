"""Batches per second of the doors to torch, against a loop in C that makes the same two arrays.

python bench/torch_doors.py [FILE.npy]

All give two contiguous int64 arrays on the CPU, 64 rows of 1024, except BatchLoader itself, whose
halves are views of one array. The limit (limit.c, built here with `cc -O3`) copies windows of known
starts and widens them: no order, no state. Each way runs in turns; the best round of each counts,
since other work on the machine only slows. Results go to bench/results/torch_doors.json.
"""

import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import machine
from torch.utils.data import DataLoader

import tokenmill
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "torch_doors.json"
LIMIT = "limit of two arrays, in C"
SECONDS, ROUNDS = 0.4, 7
ROWS, BLOCK = 64, 1024
SHAPE = {"batch_size": ROWS, "block_size": BLOCK}


def ways_of(data):
    """The name of a way -> what makes an iterator of it."""
    return {
        LIMIT: lambda: limit(data),
        "BatchLoader": lambda: tokenmill.BatchLoader(data, **SHAPE),
        "TorchLoader": lambda: TorchLoader(data, **SHAPE),
        "TokenDataLoader": lambda: TokenDataLoader(data, **SHAPE, epochs=None),
        "TokenDataLoader, 2 workers": lambda: TokenDataLoader(
            data, **SHAPE, epochs=None, num_workers=2
        ),
        "DataLoader(WindowsDataset)": lambda: windows(data, num_workers=0),
        "DataLoader(WindowsDataset), 2 workers": lambda: windows(data, num_workers=2),
    }


def windows(data, num_workers):
    """Epoch after epoch of torch's own loader."""
    loader = DataLoader(
        WindowsDataset(data, block_size=BLOCK), batch_size=ROWS, num_workers=num_workers
    )
    while True:
        yield from loader


def limit(data):
    """Inputs and targets of random windows of one file of uint16, as fast as C copies them."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "limit.so"
        source = HERE / "limit.c"
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        gather = ctypes.CDLL(str(library)).two_arrays
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    gather.argtypes = [pointer, pointer, number, number, pointer, pointer]
    ids = data.array(0)
    if ids.dtype != np.uint16:
        raise ValueError(f"the limit copies uint16; this file has {ids.dtype}")
    draw = np.random.default_rng(1)
    batches = draw.integers(0, (len(ids) - 1) // BLOCK, (2000, ROWS)) * BLOCK  # starts of rows
    for starts in itertools.cycle(batches):
        inputs = np.empty((ROWS, BLOCK), np.int64)
        targets = np.empty_like(inputs)
        addresses = (inputs.ctypes.data, targets.ctypes.data)
        gather(ids.ctypes.data, starts.ctypes.data, ROWS, BLOCK + 1, *addresses)
        yield inputs, targets


def batches_per_second(batches) -> float:
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
            best[name] = max(best[name], batches_per_second(iter(way())))
    doors = {
        name: {"batches_per_second": speed, "ratio": speed / best[LIMIT]}
        for name, speed in best.items()
    }
    for name, door in doors.items():
        print(
            f"{name}: {door['batches_per_second']:,.0f} batches/s, {door['ratio']:.2f} of the limit"
        )
    RESULTS.write_text(json.dumps({"machine": machine(), **SHAPE, "doors": doors}, indent=2) + "\n")


if __name__ == "__main__":
    main()
