"""The order of batches as docs/reference/order.md describes it, with lists and Python's integers.

Slow and short: what the arithmetic in `tokenmill.order` is compared with. Every order is written as
a list of windows, shuffled by `plain_shuffle`, one number at a time.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np

WORD = (1 << 64) - 1


def keys_of(*entropy: int) -> list[int]:
    """Six 64-bit keys, by NumPy's SeedSequence: the one thing that is not written again here."""
    return [int(key) for key in np.random.SeedSequence(entropy).generate_state(6, np.uint64)]


def plain_mix(z: int) -> int:
    """The finalizer of splitmix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def plain_shuffle(position: int, n: int, keys: list[int]) -> int:
    """A Feistel network over the smallest power of four >= n, walked until it is below n."""
    half = 1
    while 4**half < n:
        half += 1
    mask = (1 << half) - 1
    x = position
    while True:
        left, right = x >> half, x & mask
        for key in keys:
            left, right = right, left ^ (plain_mix(right ^ key) & mask)
        x = (left << half) | right
        if x < n:
            return x


def shuffled(items: list, keys: list[int]) -> list:
    return [items[plain_shuffle(p, len(items), keys)] for p in range(len(items))]


def plain_blocks(count: int, per_block: int, per_group: int, seed: int, epoch: int) -> list[int]:
    """Blocks of neighbours in a shuffled order, then windows shuffled within groups of blocks."""
    blocks = [list(range(at, min(at + per_block, count))) for at in range(0, count, per_block)]
    line = [window for block in shuffled(blocks, keys_of(seed, epoch, 2)) for window in block]
    size = per_block * per_group
    groups = [line[at : at + size] for at in range(0, count, size)]
    return [
        window
        for g, group in enumerate(groups)
        for window in shuffled(group, keys_of(seed, epoch, 3, g + 1))
    ]


def plain_shard_blocks(shards, block_size: int, count: int, seed: int, epoch: int) -> list[int]:
    """The same with blocks that are shards, or equal parts of those of more than 2^24 tokens."""
    blocks, axis, largest = [], 0, 1
    for tokens in shards:
        parts = max(1, -(-tokens // 2**24))
        edges = [axis + part * tokens // parts for part in range(parts)] + [axis + tokens]
        for low, high in pairwise(edges):
            largest = max(largest, -(-tokens // parts))
            inside = [w for w in range(count) if low <= w * block_size < high]
            blocks += [inside] if inside else []
        axis += tokens
    blocks = shuffled(blocks, keys_of(seed, epoch, 2))
    size = max(16, -(-(2**27) // largest))
    cuts = range(0, len(blocks), size)
    groups = [[window for block in blocks[at : at + size] for window in block] for at in cuts]
    return [
        window
        for g, group in enumerate(groups)
        for window in shuffled(group, keys_of(seed, epoch, 3, g + 1))
    ]


def plain_epoch(order, num_tokens: int, block_size: int, seed: int, epoch: int, phase: bool):
    """The first token of every sample of one epoch, in the order they come."""
    count = (num_tokens - 1) // block_size - phase
    if order == "random":
        keys = keys_of(seed, 0, 4)
        samples = range(epoch * count, (epoch + 1) * count)
        bits = [plain_mix(plain_mix((g + keys[0]) & WORD) ^ keys[1]) for g in samples]
        return [b % (num_tokens - block_size) for b in bits]
    if order == "sequential":
        windows = list(range(count))
    elif order == "shuffle":
        windows = shuffled(list(range(count)), keys_of(seed, epoch))
    else:
        windows = plain_blocks(count, *order, seed, epoch)
    slack = num_tokens - 1 - count * block_size
    offset = keys_of(seed, epoch, 1)[0] % (slack + 1) if phase else 0
    return [window * block_size + offset for window in windows]


def plain_deal(parts: tuple[int, ...], n: int) -> list[tuple[int, int]]:
    """(source, number within it) of the first n samples, dealt one by one down a Huffman tree."""
    nodes = [(Fraction(p), s, s) for s, p in enumerate(parts) if p]
    while len(nodes) > 1:
        nodes.sort(key=lambda node: node[:2])
        (a, i, small), (b, j, large), *nodes = nodes
        nodes.append((a + b, min(i, j), [b / (a + b), large, small, 0, 0]))
    tree = nodes[0][2]
    counts = [0] * len(parts)
    dealt = []
    for _ in range(n):
        node = tree
        while isinstance(node, list):
            share, left, right, seen, seen_left = node
            # The left side is due when its rounded share of one more sample is more than it has.
            due = int((seen + 1) * share + Fraction(share.denominator // 2, share.denominator))
            node[3] = seen + 1
            if due > seen_left:
                node[4] = seen_left + 1
                node = left
            else:
                node = right
        dealt.append((node, counts[node]))
        counts[node] += 1
    return dealt


def plain_mixture(stages: list[tuple[int, tuple[int, ...]]], n: int, seed: int):
    """(source, number within it) of the first n samples: blocks of 64, sorted by a hash."""
    served = [0] * len(stages[0][1])
    found = []
    ends = [start for start, _ in stages[1:]] + [max(n, stages[-1][0]) + 64]
    for number, ((start, parts), end) in enumerate(zip(stages, ends, strict=True)):
        keys = keys_of(seed, number, 5)
        dealt = [source for source, _ in plain_deal(parts, end - start)]
        for at in range(0, end - start, 64):
            slots = range(at, min(at + 64, end - start))
            tickets = [plain_mix(plain_mix((k + keys[0]) & WORD) ^ keys[1]) >> 1 for k in slots]
            # The lowest six bits of a ticket are replaced by the slot, which breaks ties.
            tickets = sorted((t >> 6, k) for t, k in zip(tickets, slots, strict=True))
            for _, k in tickets:
                found.append((dealt[k], served[dealt[k]]))
                served[dealt[k]] += 1
    return found[:n]
