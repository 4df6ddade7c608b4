"""Find a text in token data.

The ids of a text depend on what is around it. But between two places where the tokenizer may be cut
they are the same everywhere: these inner ids are looked for in the files as they are (about
1 GB/s), and each hit is decoded and compared. A text that has none is looked for by decoding all.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.dataset import TokenDataset

BLOCK_TOKENS = 1 << 22  # tokens looked at in one go
DECODE_TOKENS = 1 << 18  # tokens decoded in one go


def find(
    data: TokenDataset, text: str | bytes, start: int = 0, stop: int | None = None
) -> Iterator[range]:
    """The tokens that hold each occurrence of the text from start to stop; needs a tokenizer."""
    stop = data.num_tokens if stop is None else stop
    needle = text.encode() if isinstance(text, str) else text
    if not needle:
        raise ValueError("the text to look for is empty")
    data.decode(np.empty(0, data.dtype))  # says so when there is no tokenizer
    inner, before = _inner_ids(data, needle)
    matches = _by_text(data, needle, start, stop)
    if len(inner):
        matches = _by_ids(data, needle, inner, before, start, stop)
    done = -1
    for match in matches:
        if match.start > done:  # blocks overlap
            yield match
            done = match.start


def _inner_ids(data: TokenDataset, needle: bytes) -> tuple[np.ndarray, int]:
    """The ids that this text has everywhere, and how many bytes of it come before them."""
    cuts = data.tokenizer.cuts
    places = [] if cuts is None else sorted({m.end() for m in cuts.finditer(needle)})
    places = [place for place in places if 0 < place < len(needle)]
    if len(places) < 2:
        return np.empty(0, np.int64), 0
    ids, _ = data.tokenizer.encode_batch([needle[places[0] : places[-1]]])
    return np.asarray(ids, np.int64), places[0]


def _by_ids(
    data: TokenDataset, needle: bytes, inner: np.ndarray, before: int, start: int, stop: int
) -> Iterator[range]:
    anchor = int(inner.argmax())  # large ids are rare ones
    for low in range(start, stop, BLOCK_TOKENS):
        # Past the block on both sides, for a hit across its edge.
        first = max(start, low - len(inner))
        block = data.tokens(first, min(low + BLOCK_TOKENS + len(inner), stop))
        for place in np.flatnonzero(block == inner[anchor]).tolist():
            begin = place - anchor
            if begin < 0 or not np.array_equal(block[begin : begin + len(inner)], inner):
                continue
            hit = first + begin
            # No token is empty: n tokens hold at least n bytes.
            around = (max(start, hit - before), min(hit + len(needle), stop))
            yield from (match for match in _in_range(data, *around, needle) if hit in match)


def _by_text(data: TokenDataset, needle: bytes, start: int, stop: int) -> Iterator[range]:
    for low in range(start, stop, DECODE_TOKENS):
        high = min(low + DECODE_TOKENS + len(needle), stop)
        yield from _in_range(data, low, high, needle)


def _in_range(data: TokenDataset, low: int, high: int, needle: bytes) -> Iterator[range]:
    ids = data.tokens(low, high)
    text: bytes = data.tokenizer.decode(ids)
    at = text.find(needle)
    if at < 0:
        return
    ends = _byte_ends(data, ids, text)
    while at >= 0:
        first, last = np.searchsorted(ends, [at, at + len(needle) - 1], side="right").tolist()
        yield range(low + first, low + last + 1)
        at = text.find(needle, at + 1)


def _byte_ends(data: TokenDataset, ids: np.ndarray, text: bytes) -> np.ndarray:
    """The end of each token in the whole text, in bytes."""
    unique, places = np.unique(ids, return_inverse=True)
    decode = data.tokenizer.decode
    lengths = np.array([len(decode(id)) for id in unique[:, None]])
    ends: np.ndarray = np.cumsum(lengths[places])
    if ends[-1] != len(text):  # tokens that are other text when they are decoded alone
        ends = np.array([len(decode(ids[:count])) for count in range(1, len(ids) + 1)])
    return ends
