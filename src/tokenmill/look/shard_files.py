"""Files that were not written whole, or are there twice.

Formats with a header or an index are compared with it when they are opened: sizes are compared for
those that have none. A writer that makes its file large first and is killed leaves zeros, which are
a valid id. Packed formats fill up their last file with separators, and readers train on them.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import xxhash

from tokenmill.look.token_sample import SplitSample, Trap, percent

LEAST_TAIL = 64  # tokens
LEAST_HOLE = 1024
PROBES = 16
PROBE_TOKENS = 256


def cut(sample: SplitSample) -> Iterator[Trap]:
    """Find shards that are shorter than the others, by their sizes."""
    files = sample.data.files
    if len(files) < 4 or any(file.partial or file.known_contents or file.ends for file in files):
        return
    sizes = Counter(file.num_tokens for file in files[:-1])  # the last may be shorter
    usual, count = sizes.most_common(1)[0]
    if count < 3 or count < 0.75 * (len(files) - 1):
        return
    for file in files[:-1]:
        if file.num_tokens < usual:
            others = f"{count:,} of the others have {usual:,} each, and it is not the last"
            evidence = f"it has {file.num_tokens:,} tokens; {others}"
            yield Trap("cut-shard", file.name, evidence, "fetch or write this file again")


def repeated(sample: SplitSample) -> Iterator[Trap]:
    """Find shards that are there twice, by probes of them."""
    data = sample.data
    seen: dict[tuple[int, str], int] = {}
    for i in sample.shards():
        file = data.files[i]
        if file.num_tokens < PROBE_TOKENS or not file.path:
            continue
        key = (file.num_tokens, _probe(sample, i))
        if key in seen:
            other = f"{data.files[seen[key]].name}, at all of {PROBES} places compared"
            evidence = f"it holds the same {file.num_tokens:,} tokens as {other}"
            fix = "remove one of the two, or fetch the one that should be there"
            yield Trap("repeated-shard", file.name, evidence, fix)
        seen.setdefault(key, i)


def _probe(sample: SplitSample, i: int) -> str:
    data = sample.data
    last = data.files[i].num_tokens - PROBE_TOKENS
    digest = xxhash.xxh3_128()
    part = np.empty(PROBE_TOKENS, data.dtype)
    for start in np.linspace(0, last, PROBES).astype(int).tolist():
        data.read_into(i, start, part)
        digest.update(part.tobytes())
    return digest.hexdigest()


def unfilled(sample: SplitSample) -> Iterator[Trap]:
    """Find equal tokens at the end of a shard, and runs of zeros in the sample."""
    tails = False
    for i in sample.shards():
        file = sample.data.files[i]
        token, length = _tail(sample, i)
        if length < LEAST_TAIL:
            continue
        tails = True
        share = percent(length, file.num_tokens)
        evidence = f"its last {length:,} of {file.num_tokens:,} tokens ({share}) are all {token}"
        if token == 0:
            fix = "its writer was stopped before it was done: write or fetch this file again"
            yield Trap("zero-tail", file.name, evidence, fix)
        else:
            fix = f"cut the padding off: tokens 0 to {file.num_tokens - length:,} are text"
            yield Trap("padded-tail", file.name, evidence, fix, is_fault=False)
    for first, ids in () if tails else sample.blocks:
        start, length = longest_run(ids == 0)
        if length >= LEAST_HOLE:
            where = f"{sample.split}, token {first + start:,}"
            evidence = f"{length:,} tokens in a row are 0"
            fix = "a block of the file was never written: write or fetch it again"
            yield Trap("zero-hole", where, evidence, fix)
            return


def _tail(sample: SplitSample, i: int) -> tuple[int, int]:
    """The last token of a shard, and how many like it end the shard."""
    data = sample.data
    token = length = 0
    # A few tokens; where they are alike, as many as the budget has for one shard.
    for size in (LEAST_TAIL, max(LEAST_TAIL, sample.budget // len(data.shards))):
        part = np.empty(min(size, data.files[i].num_tokens), data.dtype)
        data.read_into(i, data.files[i].num_tokens - len(part), part)
        if not len(part):
            break
        token = int(part[-1])
        length = int((part[::-1] != token).argmax()) or len(part)
        if length < LEAST_TAIL:
            break
    return token, length


def longest_run(mask: np.ndarray) -> tuple[int, int]:
    """(start, length) of the longest run of True.

    >>> longest_run(np.array([0, 1, 1, 0, 1], bool))
    (1, 2)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.view(np.int8), [0]])))
    if not len(edges):
        return 0, 0
    starts = edges[::2]
    lengths = edges[1::2] - starts
    best = int(lengths.argmax())
    return int(starts[best]), int(lengths[best])
