r"""A pattern that takes numbers in pairs, `\p{N}{1,2}`, by gigatoken's that takes up to three.

Patterns read a text from left to right and never look back, and none looks beyond a number. So a
text may be cut after any number, if the rest begins a piece of its own; and a run of numbers that
is cut after every second one is taken in pairs, whatever the pattern says.
"""

import base64
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.gigatoken import encode_in_pieces
from tokenmill.tokens.newer_characters import MOST_POINTS, looks_for
from tokenmill.tokens.same_ids import EncodeBatch
from tokenmill.tokens.tokenizer import Ends, Ids

_SEPARATOR = b"\n"


def in_pairs(encode: EncodeBatch) -> EncodeBatch:
    """An encoder that takes up to three numbers at once becomes one that takes two."""
    return functools.partial(_encode, encode)


def _encode(encode: EncodeBatch, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
    whole = _SEPARATOR.join(texts)
    if not whole.isascii() and _has_other_numbers()(whole):
        return encode_in_pieces(encode, texts, cut_into_pairs)
    cuts = _cuts_in_ascii(whole)
    if not len(cuts):
        return encode(texts)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    stops = np.cumsum(sizes + 1) - 1
    starts = np.sort(np.concatenate([stops - sizes, cuts]))
    ends_of_pieces = np.sort(np.concatenate([stops, cuts]))
    slices = map(slice, starts.tolist(), ends_of_pieces.tolist())
    ids, ends = encode(list(map(whole.__getitem__, slices)))
    return ids, ends[ends_of_pieces.searchsorted(stops)]


def _cuts_in_ascii(whole: bytes) -> npt.NDArray[np.int64]:
    """After every second digit of runs that are longer than two."""
    is_digit = np.frombuffer(whole, np.uint8) - np.uint8(ord("0")) < 10
    (three,) = (is_digit[:-2] & is_digit[1:-1] & is_digit[2:]).nonzero()  # the first of each three
    begins = np.diff(three, prepend=-2) > 1
    first = three[begins][np.cumsum(begins) - 1]  # of its run
    cuts: npt.NDArray[np.int64] = three[(three - first) % 2 == 0] + 2
    return cuts


def cut_into_pairs(text: bytes) -> list[bytes]:
    """The text, cut after every second number of a run that is longer than two."""
    string = text.decode()
    points = np.frombuffer(string.encode("utf-32-le"), "<u4")
    edges = np.flatnonzero(np.diff(_numbers()[points].view(np.int8), prepend=0, append=0))
    starts, stops = edges[::2], edges[1::2]
    is_long = stops - starts > 2
    spans = list(zip(starts[is_long].tolist(), stops[is_long].tolist(), strict=True))
    return [string[a:b].encode() for a, b in _pairs(spans, len(string))]


@functools.cache
def _has_other_numbers() -> Callable[[bytes], bool]:
    """Whether a text has a number that is not ASCII, as a function."""
    others = np.zeros(MOST_POINTS, np.bool_)
    others[0x80 : len(_numbers())] = _numbers()[0x80:]
    return looks_for(others)


def _pairs(spans: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a text begin and end, given its long runs of numbers."""
    return pairwise([0, *(at for a, b in spans for at in range(a + 2, b, 2)), size])


@functools.cache
def _numbers() -> npt.NDArray[np.bool_]:
    r"""Which code points are `\p{N}` to gigatoken: its Unicode is not always Python's."""
    from gigatoken.gigatoken_rs import BPETokenizer

    points = np.concatenate([np.arange(0x80, 0xD800), np.arange(0xE000, 0x110000)])
    # "1" and the first byte of a character are one token: it is seen where both are in one piece.
    tokens = [bytes([b]) for b in range(256)] + [
        bytes([0x31, first]) for first in range(0xC2, 0xF5)
    ]
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        lines = (base64.b64encode(t) + b" %d\n" % rank for rank, t in enumerate(tokens))
        file.write(b"".join(lines))
        file.flush()
        encoder = BPETokenizer.from_tiktoken(file.name, "gpt2")
    probe = np.full((len(points), 3), ord("1"), "<u4")
    probe[:, 0] = ord("\n")
    probe[:, 2] = points
    ids = encoder.encode(probe.tobytes().decode("utf-32-le").encode())
    found = np.zeros(0x110000, np.bool_)
    found[ord("0") : ord("9") + 1] = True
    # After every newline: the joined token, or "1".
    found[points] = ids[np.flatnonzero(ids == ord("\n")) + 1] >= 256
    return found
