"""zero-tail, padded-tail and zero-hole: room that was made for tokens and never filled.

A writer that makes its file large first and is killed leaves zeros, which are a valid id. Packed
formats fill their last file up with separators, and readers train on them.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient, percent

LEAST_TAIL = 64  # tokens
LEAST_HOLE = 1024
STEP = 1 << 16


def check(patient: Patient) -> Iterator[Finding]:
    """The end of each shard, and runs of zeros in the sample."""
    data = patient.data
    tails = False
    for i in patient.shards():
        file = data.files[i]
        if file.num_tokens < LEAST_TAIL:
            continue
        token, length = _tail(patient, i)
        if length < LEAST_TAIL:
            continue
        tails = True
        share = percent(length, file.num_tokens)
        evidence = f"its last {length:,} of {file.num_tokens:,} tokens ({share}) are all {token}"
        if token == 0:
            yield Finding(
                "zero-tail",
                file.name,
                evidence,
                "its writer was stopped before it was done: write or fetch this file again",
            )
        else:
            yield Finding(
                "padded-tail",
                file.name,
                evidence,
                f"cut the padding off: tokens 0 to {file.num_tokens - length:,} are text",
                is_fault=False,
            )
    if tails:
        return
    for block in patient.blocks:
        start, length = longest_run(block.ids == 0)
        if length >= LEAST_HOLE:
            yield Finding(
                "zero-hole",
                f"{patient.split}, token {block.start + start:,}",
                f"{length:,} tokens in a row are 0",
                "a block of the file was never written: write or fetch it again",
            )
            return


def _tail(patient: Patient, i: int) -> tuple[int, int]:
    """The last token of a shard, and how many like it end the shard."""
    data, count = patient.data, patient.data.files[i].num_tokens
    token, length = 0, 0
    while length < count:
        size = min(STEP if length else LEAST_TAIL, count - length)
        part = np.empty(size, data.dtype)
        data.read_into(i, count - length - size, part)
        if not length:
            token = int(part[-1])
        other = np.flatnonzero(part != token)
        if len(other):
            return token, length + size - 1 - int(other[-1])
        length += size
        # Long enough to say so; the budget is for all shards together.
        if length > patient.budget // len(data.shards):
            break
    return token, length


def longest_run(mask: np.ndarray) -> tuple[int, int]:
    """Where the longest run of True begins, and its length.

    >>> longest_run(np.array([0, 1, 1, 0, 1], bool))
    (1, 2)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.view(np.int8), [0]])))
    starts, stops = edges[::2], edges[1::2]
    if not len(starts):
        return 0, 0
    best = int((stops - starts).argmax())
    return int(starts[best]), int(stops[best] - starts[best])
