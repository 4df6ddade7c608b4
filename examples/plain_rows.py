"""Rows of whole documents with Python's standard library alone.

    python examples/plain_rows.py data/corpus --block_size 64 --sample 3

Written from order.md, "Rows of documents", with its names; the rest is in plain_reader.py.
Nothing is for speed: every piece of every document is a tuple in a list.
tests/order/test_plain_rows.py compares it with BatchLoader.
"""

import argparse
import json
from array import array
from collections import Counter
from pathlib import Path
from sys import byteorder

from plain_reader import Split, keys, mix, permute


def cut(L: int, T: int) -> list[int]:  # noqa: N803 (the names of the page)
    """The lengths of the pieces of a document of L tokens."""
    full = (L - 1) // T
    rest = L - full * T
    return [T + 1] * full + ([rest] if full == 0 or rest > 1 else [])


def pieces(lengths: list[int], T: int, begin: bool) -> list[tuple[int, int, int, int]]:  # noqa: N803
    """(length, length of its document, document, which piece of it), in the order of numbers."""
    if begin and T < 2:
        raise ValueError("with a begin token, T is at least 2")
    return sorted(
        (length, L, document, j)
        for document, L in enumerate(lengths)
        if L
        for j, length in enumerate(cut(L + begin, T))
    )


def pack(counts: dict[int, int], C: int) -> list[tuple[int, list[tuple[int, int, int]]]]:  # noqa: N803
    """Recipes (rows, entries (length, count, first)) for so many pieces of each length."""
    groups = {}  # by free space: lists of (rows, entries)
    for length in sorted(counts, reverse=True):
        n, placed = counts[length], 0
        while placed < n:
            space = min((s for s in groups if s >= length), default=None)
            if space is None:
                space, rows, entries = C, n, []
            else:
                rows, entries = groups[space].pop()
            count = space // length
            taken = min(rows, (n - placed) // count)
            if taken == 0:
                taken, count = 1, n - placed
            if entries and taken < rows:
                after = [(size, k, first + taken * k) for size, k, first in entries]
                groups[space].append((rows - taken, after))
            if not groups.get(space, [1]):
                del groups[space]
            filled = (taken, [*entries, (length, count, placed)])
            groups.setdefault(space - count * length, []).append(filled)
            placed += taken * count
    return [group for space in sorted(groups) for group in groups[space]]


def row(g: int, lengths: list[int], T: int, seed: int, *, kind="packed", order="shuffle",  # noqa: N803
        begin=False) -> list[tuple[int, int, int]]:  # fmt: skip
    """(document, which of its pieces, length) of sample g, in the order of the row."""
    numbered = pieces(lengths, T, begin)
    counts = Counter(length for length, *_ in numbered)
    recipes = pack(counts, T + 1)
    if kind == "documents":
        recipes = [(counts[length], [(length, 1, 0)]) for length in sorted(counts)]
    R = sum(rows for rows, _ in recipes)  # noqa: N806
    e, p = divmod(g, R)
    if order == "shuffle":
        r = permute(p, R, keys(seed, e))
    elif kind == "documents":
        length, _, document, j = sorted(numbered, key=lambda piece: piece[2:])[p]
        return [(document, j, length)]
    else:
        r = p
    while r >= recipes[0][0]:
        r -= recipes.pop(0)[0]
    found = []
    for length, count, first in recipes[0][1]:
        same = [piece for piece in numbered if piece[0] == length]
        k = [mix(key + length & (1 << 64) - 1) for key in keys(seed, e, 7)]
        for number in range(first + r * count, first + r * count + count):
            if order == "shuffle":
                number = permute(number, len(same), k)
            found.append((same[number][2], same[number][3], length))
    return found


def tokens(split, ends, g, T, seed, *, begin_token=None, **options) -> list[int]:  # noqa: N803
    """The tokens of sample g before its padding; `ends` are where documents end on the axis."""
    starts = [0, *ends]
    lengths = [end - start for start, end in zip(starts, ends, strict=False)]
    begin = begin_token is not None
    held = []
    for document, j, length in row(g, lengths, T, seed, begin=begin, **options):
        at = starts[document] + j * T - begin
        if begin and j == 0:
            held += [begin_token, *split.read(at + 1, length - 1)]
        else:
            held += split.read(at, length)
    return held


def ends_of(folder: str, split: str = "train") -> list[int]:
    """Where the documents of a split end on its axis."""
    manifest = json.loads((Path(folder) / "dataset_metadata.json").read_text("utf-8"))
    found, start = [], 0
    for shard in manifest["splits"][split]["shards"]:
        ends = array("Q")
        ends.frombytes((Path(folder) / shard["ends"]["file"]).read_bytes())
        if byteorder == "big":
            ends.byteswap()
        found += [start + end for end in ends]
        start += shard["tokens"]
    return found if found[-1:] == [start] else [*found, start]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the tokens of one row.")
    parser.add_argument("dataset")
    for name, default in (("sample", 0), ("block_size", 1024), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rows", default="packed", choices=("packed", "documents"))
    asked = parser.parse_args()
    split, ends = Split(asked.dataset), ends_of(asked.dataset)
    print(*tokens(split, ends, asked.sample, asked.block_size, asked.seed, kind=asked.rows))
