r"""Numbers in pairs, nanochat's `\p{N}{1,2}`, by gigatoken's pattern that takes up to three.

A pattern reads from left to right, and none looks beyond a number: so a text may be cut between two
numbers, and a run of them that is cut after every second one is taken in pairs.
"""

import functools
from collections.abc import Sequence
from itertools import chain
from unicodedata import category

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.tokenizer import EncodeBatch, decode_texts
from tokenmill.tokens.vocabulary import Ends, Ids

PAIRS = r"\p{N}{1,2}"
# Numbers of Unicode 15 and 16, which not every Python has.
_NEWER = (
    *(range(0x10D40, 0x10D4A), range(0x116D0, 0x116E4), range(0x11BF0, 0x11BFA)),
    *(range(0x11F50, 0x11F5A), range(0x1CCF0, 0x1CCFA), range(0x1D2C0, 0x1D2D4)),
    *(range(0x1E4F0, 0x1E4FA), range(0x1E5F1, 0x1E5FB)),
)


def in_pairs(encode: EncodeBatch) -> EncodeBatch:
    """An encoder that takes up to three numbers at once, as one that takes two."""

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
def _numbers() -> npt.NDArray[np.bool_]:
    """For every code point, whether it is a number."""
    found = np.zeros(0x110000, np.bool_)
    found[[p for p in range(0x20000) if category(chr(p))[0] == "N"]] = True
    found[list(chain(*_NEWER))] = True
    return found
