"""nanoGPT's way: tiktoken in a pool of processes, then one memmap filled batch by batch."""

import base64
import fileinput
import json
import multiprocessing
import sys
from pathlib import Path

import numpy as np
import tiktoken

ranks, corpus, out, workers = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
pairs = (line.split() for line in ranks.read_bytes().splitlines())
encoding = tiktoken.Encoding(
    "gpt2",
    pat_str=PATTERN,
    mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
    special_tokens={"<|endoftext|>": 50256},
)


def encode(line: bytes) -> list[int]:
    ids = encoding.encode_ordinary(json.loads(line)["text"])
    ids.append(encoding.eot_token)
    return ids


if __name__ == "__main__":
    with (
        fileinput.input(sorted(corpus.glob("*.jsonl")), mode="rb") as lines,
        multiprocessing.Pool(int(workers)) as pool,
    ):
        encoded = list(pool.imap(encode, lines, chunksize=64))
    total = sum(map(len, encoded))
    array = np.memmap(out / "train.bin", dtype=np.uint16, mode="w+", shape=(total,))
    at = 0
    for ids in encoded:
        array[at : at + len(ids)] = ids
        at += len(ids)
    array.flush()
