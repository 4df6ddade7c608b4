"""wrong-dtype and byte-order: the bytes are tokens, but not of the type they are read as.

uint32 read as uint16 doubles the count and makes every second token 0 (or small); uint16 read as
uint32 halves it and joins two ids into one that no vocabulary has. Bytes in the other order keep
every count and give other ids.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.doctor.token_sample import SplitSample, percent
from tokenmill.look.doctor.trap import Trap

LARGEST_VOCABULARY = 1 << 20  # ids; the largest in use have a quarter of that
LEAST = 256  # tokens; with fewer, nothing is said
NUM_BLOCKS = 16


def check(sample: SplitSample) -> Iterator[Trap]:
    """What most blocks of the sample show, for the tokens as they are read now."""
    said: dict[tuple[str, str], list[Trap]] = {}
    blocks = [block.ids for block in sample.blocks if len(block.ids) >= LEAST]
    blocks = blocks[:: max(1, len(blocks) // NUM_BLOCKS)]
    for ids in blocks:
        # Each by itself: between two blocks the places of the halves of an id may change.
        found = _look(ids, sample)
        if found is not None:
            said.setdefault((found.name, found.fix), []).append(found)
    for findings in said.values():
        if 2 * len(findings) > len(blocks):
            yield findings[0]


def _look(ids: np.ndarray, sample: SplitSample) -> Trap | None:
    where = f"{sample.split} ({sample.data.dtype.name})"
    if ids.dtype.kind == "i" and (negative := int((ids < 0).sum())):
        return Trap(
            "wrong-dtype",
            where,
            f"{percent(negative, len(ids))} of the ids are negative, down to {int(ids.min())}",
            f"read them as unsigned: dtype=uint{8 * ids.dtype.itemsize}",
        )
    if (wider := _is_wider(ids)) is not None:
        small, width = wider
        return Trap(
            "wrong-dtype",
            where,
            f"{small} of every {width // ids.dtype.itemsize} tokens are almost always below 16: "
            f"{ids[:8].tolist()} ...",
            f"these are ids of {width} bytes: dtype=uint{8 * width}",
        )
    if ids.dtype.itemsize > 2 and float((ids >= LARGEST_VOCABULARY).mean()) > 0.5:
        return _too_large(ids, where)
    if ids.dtype.itemsize == 2 and _is_swapped(ids, sample):
        return _swapped(ids, where)
    return None


def likely_dtype(data: bytes) -> str:
    """uint16 or uint32, for a file that does not say."""
    ids = np.frombuffer(data[: len(data) & ~7], "<u2")
    wider = _is_wider(ids) if len(ids) >= LEAST else None
    return "uint16" if wider is None else f"uint{8 * wider[1]}"


def _is_wider(ids: np.ndarray) -> tuple[int, int] | None:
    """(small ones of a group, bytes of an id) when groups of 2 or 4 are one id each."""
    for group in (4, 2):
        if ids.dtype.itemsize * group > 8:
            continue
        columns = ids[: len(ids) // group * group].reshape(-1, group)
        small = (columns < 16).mean(axis=0)
        # The lowest part of each id is the only varied one; a split may begin inside an id.
        if int((small > 0.99).sum()) == group - 1 and small.min() < 0.5:
            return group - 1, ids.dtype.itemsize * group
    return None


def _too_large(ids: np.ndarray, where: str) -> Trap:
    large = percent(int((ids >= LARGEST_VOCABULARY).sum()), len(ids))
    evidence = f"{large} of the ids are above {LARGEST_VOCABULARY:,}: {ids[:4].tolist()} ..."
    if int(ids.byteswap().max()) < LARGEST_VOCABULARY:
        return Trap(
            "byte-order",
            where,
            f"{evidence}; with the bytes of each id reversed the largest is "
            f"{int(ids.byteswap().max()):,}",
            "they were written big-endian: write them again little-endian (array.astype('<u4'))",
        )
    halves = ids.view(f"<u{ids.dtype.itemsize // 2}")
    return Trap(
        "wrong-dtype",
        where,
        f"{evidence}; read in halves they are {halves[:8].tolist()} ...",
        f"these are ids of {ids.dtype.itemsize // 2} bytes: dtype=uint{4 * ids.dtype.itemsize}",
    )


def _is_swapped(ids: np.ndarray, sample: SplitSample) -> bool:
    """The high byte of an id says more about it than the low one, only when bytes are reversed.

    Frequent tokens have small ids, in every vocabulary made by counting, so the high bytes are few.
    """
    data = sample.data
    low, high = _entropy(ids & 0xFF), _entropy(ids >> 8)
    if high < low + 0.5:
        return False
    end = data.end_of_text_id
    if end is not None and end < 1 << 16:
        here, reversed_ = (int((x == end).sum()) for x in (ids, ids.byteswap()))
        return reversed_ > here
    return True


def _entropy(values: np.ndarray) -> float:
    counts = np.bincount(values, minlength=256)
    shares = counts[counts > 0] / len(values)
    return float(-(shares * np.log2(shares)).sum())


def _swapped(ids: np.ndarray, where: str) -> Trap:
    low, high = _entropy(ids & 0xFF), _entropy(ids >> 8)
    return Trap(
        "byte-order",
        where,
        f"the high bytes of the ids are more varied ({high:.1f} bits) than the low ones "
        f"({low:.1f} bits): {ids[:4].tolist()} ...; reversed {ids.byteswap()[:4].tolist()} ...",
        "they were written big-endian: write them again little-endian (array.astype('<u2'))",
    )
