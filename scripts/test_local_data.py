"""Check token files before a run: shapes, types, ids, splits, resuming; then tokens a second.

    python scripts/test_local_data.py
    python scripts/test_local_data.py --train_data_path train.npy --val_data_path val.npy
    python scripts/test_local_data.py --train_data_path data/corpus --dtype uint16

Reads everything that `tokenmill.open` reads. Exit code 1 at the first thing that is wrong.
"""

import argparse
import sys
import time
from contextlib import closing

import numpy as np

import tokenmill
from tokenmill.batches import BatchForm

FILES = ("training_data/owt_train_tokens.npy", "training_data/owt_valid_tokens.npy")
RUN = 1 << 24  # tokens read at a time when all ids are looked at


def main() -> None:
    """Open the files and check them, one thing after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--train_data_path", help=f"default: {FILES[0]}, with {FILES[1]}")
    parser.add_argument("--val_data_path", help="default: the val split of the training data")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_length", type=int, default=1024, help="tokens of a row")
    parser.add_argument("--vocab_size", type=int, default=50257, help="used if the data names none")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure")
    parser.add_argument("--dtype", help="token type of files that do not say it")
    given = parser.parse_args()
    paths = (given.train_data_path, given.val_data_path) if given.train_data_path else FILES
    splits = dict(zip(("train", "val"), open_splits(*paths, given.dtype), strict=True))
    sizes = {"batch_size": given.batch_size, "block_size": given.max_length, "seed": given.seed}
    for name, data in splits.items():
        if data.num_tokens:  # a dataset may have no val split
            check_ids(name, data, data.vocab_size or given.vocab_size)
            check_batches(data, sizes)
    print(f"{tokens_a_second(splits['train'], sizes, given.seconds):,.0f} tokens a second")


def open_splits(train: str, val: str | None, dtype: str | None):
    """Both splits; those of one dataset must have all of its tokens."""
    options = {} if dtype is None else {"dtype": dtype}
    if val is not None:
        return tokenmill.open(train, "all", **options), tokenmill.open(val, "all", **options)
    both = [tokenmill.open(train, split, **options) for split in ("train", "val")]
    whole = tokenmill.open(train, "all", **options).num_tokens
    held_out = sum(data.num_tokens for data in both)
    expect(held_out == whole, f"splits: {held_out:,} tokens in train and val, of {whole:,}")
    return both


def check_ids(name: str, data: tokenmill.TokenDataset, vocab_size: int) -> None:
    """Read all ids; none may be negative, or outside the vocabulary."""
    low, high = 0, 0
    for at in range(0, data.num_tokens, RUN):
        ids = data[at : at + RUN]
        low, high = min(low, int(ids.min())), max(high, int(ids.max()))
    about = f"{name}: {data.num_tokens:,} tokens of {data.dtype} ({data.format}), ids up to {high}"
    about += f", lowest {low}" if low < 0 else ""
    expect(low == 0 and high < vocab_size, f"{about}; the vocabulary has {vocab_size:,}")


def check_batches(data: tokenmill.TokenDataset, sizes: dict[str, int]) -> None:
    """Shapes and types of a batch; and a loader that resumes gives the batches of one that ran."""
    loader, two = (
        tokenmill.BatchLoader(data, **sizes, form=BatchForm(prefetch=0)) for _ in range(2)
    )
    inputs, targets = next(iter(loader))
    shape = (sizes["batch_size"], sizes["block_size"])
    expect(
        inputs.shape == targets.shape == shape
        and inputs.dtype == targets.dtype == np.int64
        and np.array_equal(inputs[:, 1:], targets[:, :-1]),
        f"batches: {inputs.shape} {inputs.dtype}, targets one token later",
    )
    two.load_state_dict(loader.state_dict())
    same = np.array_equal(next(iter(loader)).inputs, next(iter(two)).inputs)
    expect(same, "resuming: the next batch is the same")


def tokens_a_second(data: tokenmill.TokenDataset, sizes: dict[str, int], seconds: float) -> float:
    """How many tokens a loader gives in a second, after a first batch."""
    count = 0
    with closing(tokenmill.BatchLoader(data, **sizes)) as loader:
        batches = iter(loader)
        next(batches)
        began = time.perf_counter()
        while (took := time.perf_counter() - began) < seconds or not count:
            count += next(batches).inputs.size
    return count / took


def expect(holds: bool, about: str) -> None:
    """Print what was looked at; stop if it is wrong."""
    print(f"{'ok   ' if holds else 'WRONG'} {about}")
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except (tokenmill.TokenmillError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
