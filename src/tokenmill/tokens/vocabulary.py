"""The spelling of every id, ids back to text, and the fingerprint.

The fingerprint is one hash by which two tokenizers are compared: of the vocabulary, and of what the
tokenizer does to a text. A hash of the file alone would miss that the same file means other ids to
another release of a library (it has happened: transformers 4 and 5); a hash of ids alone would miss
tokens that the probe does not use.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from tokenmill import kernel
from tokenmill.errors import FormatError

Ids = npt.NDArray[np.uint32]
GivenIds = npt.NDArray[np.integer[Any]]
"""Ids of any width, to be decoded."""
Ends = npt.NDArray[np.int64]

# Frozen: a change here makes every stored dataset look like one of another tokenizer.
PROBE = (
    "The mill grinds 1,234,567 words a day; isn't that MORE than we'd need?\n\n"
    "def grind(grain: list[str]) -> int:\n\treturn sum(len(g) for g in grain)  # 3.14159e-10\n"
    "    {'a': [1, 22, 333, 4444]}\r\n\r\n   trailing   spaces   \n"
    "We'LL see; THEY'VE gone; camelCaseWords snake_case_words; https://example.org/?q=a%20b\n"
    "na\u00efve caf\u00e9 e\u0301 \u00df \u0130stanbul \u03a9\u03bc\u03ad\u03b3\u03b1 "
    "\u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430 \u05d8\u05d7\u05e0\u05d4 "
    "\u0645\u0637\u062d\u0646\u0629 \u091a\u0915\u094d\u0915\u0940\n"
    "\u6c34\u8f66\u78e8\u574a\uff0c\u4e00\u4e5d\u4e8c\u4e09\u5e74\u3002\u6c34\u8eca\u3067"
    "\u7c89\u3092\u3072\u304f\u3002\ubb3c\ub808\ubc29\uc544\n"
    "\U0001f33e\U0001f3fd\u200d\U0001f468 \u00a0\u2003\u3000 <|endoftext|></s><s>\n"
).encode()
_MOST_GAPS = 1 << 20  # ids without a token, besides three for each token
_BYTE_PIECE = re.compile(rb"<0x([0-9A-F]{2})>")
_SPACE_PIECE = "\u2581".encode()
_RUN = 1 << 15  # ids spelled at a time; what this needs then stays in the processor's cache


class Vocabulary:
    """id -> bytes, kept as one run of bytes and two arrays. Ids may have gaps."""

    def __init__(self, spellings: Mapping[int, bytes], *, name: str) -> None:
        most = len(spellings) * 4 + _MOST_GAPS  # tables of larger ones would fill the memory
        if not spellings or min(spellings) < 0 or max(spellings) >= most:
            has = f"ids from {min(spellings):,} to {max(spellings):,}" if spellings else "no ids"
            raise FormatError(
                f"tokenizer {name} has a vocabulary of {len(spellings):,} tokens with {has}; "
                f"expected ids from 0 to {most - 1:,} at most"
            )
        self.name = name
        self.size = max(spellings) + 1
        self.spellings = spellings
        self.lengths = np.full(self.size, -1, np.int32)  # -1: no such id
        ids = np.fromiter(spellings, np.int64, len(spellings))
        self.lengths[ids] = np.fromiter(map(len, spellings.values()), np.int64, len(spellings))
        self._has_gaps = len(spellings) < self.size
        ordered = b"".join(spellings[i] for i in sorted(spellings))
        self._text = np.frombuffer(ordered, np.uint8)
        self._edges = np.zeros(self.size + 1, np.int32)
        np.cumsum(np.maximum(self.lengths, 0), out=self._edges[1:])

    def decode(self, ids: GivenIds) -> bytes:
        """Join the spellings of these ids; an id without one is a ValueError."""
        known = self.check(ids)
        if kernel.compiled is not None:
            width = known.dtype if known.dtype in (np.uint16, np.uint32) else np.uint32
            known = np.ascontiguousarray(known, width)
            text: bytes = kernel.compiled.spell(known, known.itemsize, self._text, self._edges)
            return text
        return b"".join([self._spell(known[at : at + _RUN]) for at in range(0, len(known), _RUN)])

    def decode_batch(self, ids: GivenIds, starts: np.ndarray, ends: Ends) -> list[bytes]:
        """The texts of the ids from each of `starts` up to each of `ends`."""
        text = self.decode(ids)
        edges = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(self.lengths.take(ids), out=edges[1:])
        spans = zip(edges[starts].tolist(), edges[ends].tolist(), strict=True)
        return [text[start:end] for start, end in spans]

    def _spell(self, ids: GivenIds) -> bytes:
        lengths = self.lengths[ids]
        # For every byte of the result, its place in the run of all spellings.
        places = np.repeat(self._edges[ids] - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(places.size)
        text: bytes = self._text[places].tobytes()
        return text

    def check(self, ids: GivenIds) -> GivenIds:
        """These ids, flat; one that is not in the vocabulary is a ValueError."""
        flat = np.asarray(ids).ravel()
        is_outside = flat.size and not 0 <= int(flat.min()) <= int(flat.max()) < self.size
        if is_outside or (self._has_gaps and (self.lengths[flat] < 0).any()):
            bad = (flat < 0) | (flat >= self.size)
            bad[~bad] = self.lengths[flat[~bad]] < 0
            at = int(bad.argmax())
            raise ValueError(
                f"id {int(flat[at])} at position {at} is not in the vocabulary of {self.name} "
                f"({self.size:,} ids)"
            )
        return flat


def bytes_of_piece(piece: bytes) -> bytes:
    """What a SentencePiece adds to a text: `\u2581` is a space, `<0x0A>` a byte.

    >>> bytes_of_piece("\u2581the".encode()), bytes_of_piece(b"<0x0A>")
    (b' the', b'\\n')
    """
    if found := _BYTE_PIECE.fullmatch(piece):
        return bytes.fromhex(found[1].decode())
    return piece.replace(_SPACE_PIECE, b" ")


def fingerprint(spellings: Mapping[int, bytes], probe_ids: Ids) -> str:
    """Hash id -> spelling, in order of the ids, and the ids of the probe text."""
    ids = sorted(spellings)
    ordered = [spellings[i] for i in ids]
    digest = xxhash.xxh3_128()
    digest.update(np.array([len(ids), len(probe_ids)], "<u8").tobytes())
    digest.update(np.array(ids, "<u8").tobytes())
    digest.update(np.array(list(map(len, ordered)), "<u8").tobytes())
    digest.update(b"".join(ordered))
    digest.update(probe_ids.astype("<u4").tobytes())
    return digest.hexdigest()
