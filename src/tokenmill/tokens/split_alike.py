r"""gigatoken, made to split texts as the packages do: newer characters, and numbers in pairs.

A split pattern asks for letters, marks and numbers. gigatoken has those of Unicode 17, tiktoken and
`tokenizers` those of Unicode 16: to them the others are signs, and they split elsewhere. What NFC
orders and joins, `tokenizers` has from Unicode 9. Texts with such a character go to the package.
Tests compare every character there is: what is not listed here is split and joined alike by all.
"""

import functools
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.tokenizer import EncodeBatch, decode_texts
from tokenmill.tokens.vocabulary import Ends, Ids

Flags = npt.NDArray[np.bool_]

PAIRS = r"\p{N}{1,2}"  # nanochat's numbers; gigatoken has a pattern that takes up to three
BLOCK = 1 << 18  # bytes that are looked at together: what fits a cache
MOST_POINTS = 1 << 21  # of four bytes of UTF-8
_CHARACTERS = Path(__file__).parent / "data" / "newer_characters.txt"


def with_exact(
    fast: EncodeBatch, exact: EncodeBatch, *, splits: Sequence[str], is_normalized: bool
) -> EncodeBatch:
    """`fast`, but texts that have characters that are newer are encoded by `exact`.

    `splits` are the expressions that split a text.
    """
    asks_for_signs = any(kind in regex for regex in splits for kind in (r"\p{P}", r"\p{S}"))
    matters = {"letters": True, "signs": asks_for_signs, "joined": is_normalized}
    runs = runs_of(*(kind for kind, does_matter in matters.items() if does_matter))
    if any(PAIRS in regex for regex in splits):
        fast = in_pairs(fast)

    def has_newer(text: bytes) -> bool:
        return not text.isascii() and one_of_characters(runs)(text)

    def encode(texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        # All texts at once: a look at each would take longer than to encode it, where it is short.
        if not has_newer(b"\n".join([text for text in texts if not text.isascii()])):
            return fast(texts)
        groups = groupby(texts, has_newer)
        encoded = [(exact if is_newer else fast)(list(group)) for is_newer, group in groups]
        before = np.cumsum([0, *(len(ids) for ids, _ in encoded)]).tolist()
        ends = [start + ends for start, (_, ends) in zip(before, encoded, strict=False)]
        return np.concatenate([ids for ids, _ in encoded]), np.concatenate(ends)

    return encode


def runs_of(*kinds: str) -> str:
    """The runs of code points that are listed under these kinds."""
    lines = [line.partition(": ") for line in _CHARACTERS.read_text(encoding="ascii").splitlines()]
    return " ".join(runs for kind, _, runs in lines if kind in kinds)


@functools.cache
def one_of_characters(runs: str) -> Callable[[bytes], bool]:
    """Whether a text has a character of these runs of code points, none of them ASCII."""
    is_newer = _listed(runs)
    leads = {chr(point).encode()[0] for point in np.flatnonzero(is_newer).tolist()}
    return functools.partial(_has_one, is_newer, bytes(sorted(leads)))


def _listed(runs: str) -> Flags:
    """Return for every code point whether it is in these runs."""
    is_listed = np.zeros(MOST_POINTS, np.bool_)
    for run in runs.split():
        points = [int(point, 16) for point in run.split("-")]
        is_listed[points[0] : points[-1] + 1] = True
    return is_listed


def _has_one(is_wanted: Flags, leads: bytes, text: bytes) -> bool:
    """Look only at characters that begin with one of these bytes: most scripts have none."""
    data = np.frombuffer(text, np.uint8)
    for lead in leads:
        size, bits = (2, 0x1F) if lead < 0xE0 else (3, 0x0F) if lead < 0xF0 else (4, 0x07)
        for start in range(0, len(data), BLOCK) if lead in text else ():
            at = np.flatnonzero(data[start : start + BLOCK] == lead) + start
            points: npt.NDArray[Any] = np.full(len(at), lead & bits, np.uint32)
            for number in range(1, size):
                points = points << 6 | data.take(at + number, mode="clip") & 0x3F
            if is_wanted[points].any():
                return True
    return False


def in_pairs(encode: EncodeBatch) -> EncodeBatch:
    """An encoder that takes up to three numbers at once, as one that takes two.

    A pattern reads from left to right, and none looks beyond a number: so a text may be cut between
    two numbers, and a run of them that is cut after every second one is taken in pairs.
    """

    def encode_pairs(texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        whole = b"\n".join(texts)
        cuts = _cuts_between_pairs(whole)
        if not len(cuts):
            return encode(texts)
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        stops = np.cumsum(sizes + 1) - 1  # of each text, in `whole`
        starts = np.sort(np.concatenate([stops - sizes, cuts]))
        ends_of_pieces = np.sort(np.concatenate([stops, cuts]))
        slices = map(slice, starts.tolist(), ends_of_pieces.tolist())
        ids, ends = encode(list(map(whole.__getitem__, slices)))
        return ids, ends[ends_of_pieces.searchsorted(stops)]

    return encode_pairs


def _cuts_between_pairs(text: bytes) -> npt.NDArray[np.int64]:
    """The bytes at which a text is cut: after every second of three numbers or more."""
    data = np.frombuffer(text, np.uint8)
    if text.isascii():
        is_number = data - np.uint8(ord("0")) < 10
    else:
        points = np.frombuffer(decode_texts([text], "nanochat")[0].encode("utf-32-le"), "<u4")
        is_number = _numbers()[points]
    # The first of each three, and the first of the run that it is in; both are characters.
    (three,) = (is_number[:-2] & is_number[1:-1] & is_number[2:]).nonzero()
    begins = np.diff(three, prepend=-2) > 1
    first = three[begins][np.cumsum(begins) - 1]
    cuts: npt.NDArray[np.int64] = three[(three - first) % 2 == 0] + 2
    return cuts if text.isascii() else np.flatnonzero(data & 0xC0 != 0x80)[cuts]


@functools.cache
def _numbers() -> Flags:
    is_number = _listed(runs_of("numbers"))
    is_number[[p for p in range(0x20000) if category(chr(p))[0] == "N"]] = True
    return is_number
