"""Batches of a dataset with Python's standard library alone.

    python examples/plain_reader.py data/corpus --batch_size 2 --block_size 8 --step 3

Written from format.md and order.md, with their names: what a reader in another language
needs, and nothing for speed. tests/order/test_plain_reader.py compares it with BatchLoader.
"""

import argparse
import functools
import json
from array import array
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path
from sys import byteorder

WORD = (1 << 64) - 1


@functools.lru_cache(maxsize=1 << 12)
def keys(*numbers: int) -> list[int]:
    """Six keys of 64 bits."""
    words = []
    for number in numbers:
        words.append(number & 0xFFFFFFFF)
        while number := number >> 32:
            words.append(number & 0xFFFFFFFF)
    constant = 0x43B0D7E5

    def scramble(word: int, factor: int) -> int:
        nonlocal constant
        word ^= constant
        constant = constant * factor & 0xFFFFFFFF
        word = word * constant & 0xFFFFFFFF
        return word ^ word >> 16

    def join(x: int, y: int) -> int:
        z = 0xCA01F9DD * x - 0x4973F715 * y & 0xFFFFFFFF
        return z ^ z >> 16

    pool = [scramble(word, 0x931E8875) for word in [*words, 0, 0, 0][:4]]
    for i in range(4):
        for j in range(4):
            if i != j:
                pool[j] = join(pool[j], scramble(pool[i], 0x931E8875))
    for word in words[4:]:
        for j in range(4):
            pool[j] = join(pool[j], scramble(word, 0x931E8875))
    constant = 0x8B51F9DD
    halves = [scramble(pool[i % 4], 0x58F38DED) for i in range(12)]
    return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]


def mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def draw(number: int, k: list[int]) -> int:
    return mix(mix(number + k[0] & WORD) ^ k[1])


def permute(x: int, n: int, k: list[int]) -> int:
    h = next(h for h in range(1, 65) if 4**h >= n)
    mask = (1 << h) - 1
    while True:
        left, right = x >> h, x & mask
        for key in k:
            left, right = right, left ^ mix(right ^ key) & mask
        x = left << h | right
        if x < n:
            return x


@functools.lru_cache
def slot_of_last(M: int, seed: int, epoch: int) -> int:  # noqa: N803 (the names of the page)
    return next(s for s in range(M) if permute(s, M, keys(seed, epoch, 2)) == M - 1)


def blocks(p: int, K: int, B: int, G: int, seed: int, epoch: int) -> int:  # noqa: N803
    g, inside = divmod(p, B * G)
    length = min(B * G, K - g * B * G)
    place = g * B * G + permute(inside, length, keys(seed, epoch, 3, g + 1))
    M = -(-K // B)  # noqa: N806
    short = K - (M - 1) * B
    if place >= slot_of_last(M, seed, epoch) * B + short:
        place += B - short
    slot, inside = divmod(place, B)
    return permute(slot, M, keys(seed, epoch, 2)) * B + inside


@functools.lru_cache
def groups(shards: tuple[int, ...], T: int, K: int, seed: int, epoch: int):  # noqa: N803
    """The windows of each group of blocks that are shards, before they are shuffled."""
    edges, at, largest = {0, K}, 0, 1
    for n in shards:
        parts = max(1, -(-n // 2**24))
        edges |= {min(K, -(-(at + i * n // parts) // T)) for i in range(parts)}
        at, largest = at + n, max(largest, -(-n // parts))
    first = sorted(edges)
    M, G = len(first) - 1, max(16, -(-(2**27) // largest))  # noqa: N806
    slots = [permute(s, M, keys(seed, epoch, 2)) for s in range(M)]
    windows = [range(first[block], first[block + 1]) for block in slots]
    return [[w for block in windows[i : i + G] for w in block] for i in range(0, M, G)]


def shard_blocks(p: int, shards, T: int, K: int, seed: int, epoch: int) -> int:  # noqa: N803
    for g, group in enumerate(groups(tuple(shards), T, K, seed, epoch)):
        if p < len(group):
            return group[permute(p, len(group), keys(seed, epoch, 3, g + 1))]
        p -= len(group)
    raise ValueError("p is not below K")


def start_of(g, N, T, seed, order="shuffle", phase=False, shards=None) -> int:  # noqa: N803
    """The first token of sample g; `order` may be (B, G) for blocks of one size."""
    if order == "random":
        return draw(g, keys(seed, 0, 4)) % (N - T)
    K = (N - 1) // T - phase  # noqa: N806
    e, window = divmod(g, K)
    if order == "shuffle":
        window = permute(window, K, keys(seed, e))
    elif order == "blocks":
        window = shard_blocks(window, shards or [N], T, K, seed, e)
    elif order != "sequential":
        window = blocks(window, K, *order, seed, e)
    offset = keys(seed, e, 1)[0] % (N - K * T) if phase else 0
    return window * T + offset


def tree_of(parts: list[int]):
    """The number of a source, or (left parts, all parts, left, right)."""
    nodes = [(part, source, source) for source, part in enumerate(parts) if part]
    while len(nodes) > 1:
        nodes.sort(key=lambda node: node[:2])
        (small, i, right), (large, j, left), *nodes = nodes
        nodes.append((small + large, min(i, j), (large, small + large, left, right)))
    return nodes[0][2]


def deal(n: int, tree) -> tuple[int, int]:
    """The source of number n of a stage, and which number it is within that source."""
    while not isinstance(tree, int):
        a, b, left, right = tree
        before, after = (n * a + b // 2) // b, ((n + 1) * a + b // 2) // b
        n, tree = (before, left) if after > before else (n - before, right)
    return tree, n


def counts(n: int, tree) -> Counter[int]:
    """How many of the first n numbers of a stage each source has."""
    if isinstance(tree, int):
        return Counter({tree: n})
    a, b, left, right = tree
    to_left = (n * a + b // 2) // b
    return counts(to_left, left) + counts(n - to_left, right)


def dealt(block: int, stage: int, stages, seed: int) -> list[int]:
    """The sources of the samples of a block of a stage, in order."""
    start, parts, *end = stages[stage]
    end = end or [stages[stage + 1][0] if stage + 1 < len(stages) else None]
    stop = 64 * block + 64 if end[0] is None else min(64 * block + 64, end[0] - start)
    k = keys(seed, stage, 5)
    numbers = sorted(range(64 * block, stop), key=lambda n: (draw(n, k) >> 7, n))
    return [deal(n, tree_of(parts))[0] for n in numbers]


def had(n: int, stage: int, stages, seed: int) -> Counter[int]:
    """How many of the first n samples of a stage each source has."""
    whole, rest = divmod(n, 64)
    tree = tree_of(stages[stage][1])
    return counts(64 * whole, tree) + Counter(dealt(whole, stage, stages, seed)[:rest])


def mixture(g: int, stages, seed: int) -> tuple[int, int]:
    """The source of sample g, and which sample of that source it is.

    A stage is (start, parts), or (start, parts, end) if it was to end elsewhere (None: nowhere).
    """
    stage = max(i for i, (start, *_) in enumerate(stages) if start <= g)
    n = g - stages[stage][0]
    source = dealt(n // 64, stage, stages, seed)[n % 64]
    seen = had(n, stage, stages, seed)
    for i in range(stage):
        seen += had(stages[i + 1][0] - stages[i][0], i, stages, seed)
    return source, seen[source]


def step_of(samples: int, batch_size: int, world_size: int = 1, first: int = 0) -> tuple[int, int]:
    """The next step after so many samples, and the sample at which step 0 begins."""
    step, rest = divmod(samples - first, world_size * batch_size)
    return step, first + rest


def part(shards: list[int], start: int, stop: int) -> list[int]:
    """The shards of `data.part(start, stop)`, by their tokens."""
    edges = [0, *accumulate(shards)]
    inside = [min(high, stop) - max(low, start) for low, high in pairwise(edges)]
    return [tokens for tokens in inside if tokens > 0]


def cu_seqlens(rows: list[list[int]], T: int, max_documents: int | None = None):  # noqa: N803
    """Where documents begin in the flattened inputs; `rows`: the inputs of the documents of each.

    Padding counts as one document more.
    """
    begins = [0, *accumulate(inputs for row in rows for inputs in row)]
    room = len(rows) * (max_documents or -(-T // 8))
    if len(begins) - 1 > room:
        if max_documents:
            raise ValueError(f"{len(begins) - 1} documents, and room for {room}")
        room = len(rows) * T
    return begins + begins[-1:] * (room + 1 - len(begins))


class Split:
    """The tokens of one split of a dataset, as one axis."""

    def __init__(self, folder: str, split: str = "train") -> None:
        manifest = json.loads((Path(folder) / "dataset_metadata.json").read_text("utf-8"))
        assert (manifest["format"], manifest["format_version"]) == ("tokenmill", 1)
        self.code = {"uint16": "H", "uint32": "I"}[manifest["dtype"]]
        shards = manifest["splits"][split]["shards"]
        self.shards = [(Path(folder) / shard["file"], shard["tokens"]) for shard in shards]
        self.num_tokens = sum(tokens for _, tokens in self.shards)

    def read(self, start: int, count: int) -> list[int]:
        found = array(self.code)
        for path, tokens in self.shards:
            if start < tokens and len(found) < count:
                with path.open("rb") as file:
                    file.seek(start * found.itemsize)
                    found.fromfile(file, min(count - len(found), tokens - start))
            start = max(0, start - tokens)
        if byteorder == "big":
            found.byteswap()
        return found.tolist()


def batch(sources, step, *, batch_size, block_size, seed=0, order="shuffle", phase=False,
          stages=None, rank=0, world_size=1, samples=0):  # fmt: skip
    """Rows of (inputs, targets); `samples` is that of a saved state, `stages` makes a mixture."""
    rows = []
    _, origin = step_of(samples, batch_size, world_size)
    for row in range(batch_size):
        g, source, own_seed = origin + (step * world_size + rank) * batch_size + row, 0, seed
        if stages:
            source, g = mixture(g, stages, seed)
            own_seed = keys(seed, 0, 6, source + 1)[0] >> 1
        split = sources[source]
        shards = [tokens for _, tokens in split.shards]
        at = start_of(g, split.num_tokens, block_size, own_seed, order, phase, shards)
        tokens = split.read(at, block_size + 1)
        rows.append((tokens[:-1], tokens[1:]))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the inputs of one batch, a row a line.")
    parser.add_argument("dataset")
    for name, default in (("step", 0), ("batch_size", 8), ("block_size", 1024), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    for inputs, _ in batch([Split(options.pop("dataset"))], options.pop("step"), **options):
        print(*inputs)
