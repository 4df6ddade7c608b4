"""Rows of documents as docs/reference/order.md describes them, with lists and Python's integers.

Slow and short: every piece of every document is a tuple in a list. `plain_order.py` has the rest of
the page.
"""

import functools

from order.plain_order import WORD, keys_of, plain_mix, shuffled


def plain_row_epoch(kind, order, lengths, block_size, seed, epoch, begin=False):
    """The rows of one epoch, in the order they come: (document, piece of it, length) each.

    `lengths` are the tokens of each document, a tuple.
    """
    pieces = numbered_pieces(lengths, block_size, begin)
    if kind == "documents" and order == "sequential":
        whole = [(document, j, length) for length, same in pieces.items() for document, j in same]
        return [[piece] for piece in sorted(whole)]
    if order == "shuffle":
        keys = keys_of(seed, epoch, 7)
        for length, same in pieces.items():
            pieces[length] = shuffled(same, [plain_mix(key + length & WORD) for key in keys])
    counts = tuple((length, len(same)) for length, same in sorted(pieces.items()))
    numbers = packed(counts, block_size + 1) if kind == "packed" else one_each(counts)
    rows = [[(*pieces[length][n], length) for length, n in row] for row in numbers]
    return shuffled(rows, keys_of(seed, epoch)) if order == "shuffle" else rows


def numbered_pieces(lengths, block_size, begin):
    """(document, piece of it) of all pieces by their length, in the order of their numbers."""
    found = {}
    for total, document in sorted((n + begin, d) for d, n in enumerate(lengths) if n):
        full = (total - 1) // block_size
        rest = total - full * block_size
        cut = [block_size + 1] * full + ([rest] if rest > 1 or not full else [])
        for j, length in enumerate(cut):
            found.setdefault(length, []).append((document, j))
    return found


def one_each(counts):
    return [[(length, number)] for length, count in counts for number in range(count)]


@functools.cache
def packed(counts, capacity):
    """The rows as (length, number of the piece), row by row, before they are shuffled.

    `counts` says how many pieces have each length. Groups of rows with the same lengths are kept by
    their free space, as lists of rows.
    """
    groups = {}
    for length, count in sorted(counts, reverse=True):
        numbers = list(range(count))
        while numbers:
            space = min((s for s in groups if s >= length and groups[s]), default=None)
            is_new = space is None
            space = capacity if is_new else space
            rows = [[] for _ in numbers] if is_new else groups[space].pop()
            each = space // length
            taken = min(len(rows), len(numbers) // each)
            if taken == 0:
                taken, each = 1, len(numbers)
            if not is_new and taken < len(rows):
                groups[space].append(rows[taken:])
            for row in rows[:taken]:
                row += [(length, number) for number in numbers[:each]]
                numbers = numbers[each:]
            groups.setdefault(space - each * length, []).append(rows[:taken])
    return [row for space in sorted(groups) for group in groups[space] for row in group]
