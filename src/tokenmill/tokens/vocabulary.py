"""The spelling of every id, ids back to text without a loop over them, and the fingerprint.

The fingerprint is one hash by which two tokenizers are compared: of the vocabulary, and of what the
tokenizer does to a text. A hash of the file alone would miss that the same file means other ids to
another release of a library (it has happened: transformers 4 and 5); a hash of ids alone would miss
tokens that the probe does not use. Equal vocabularies from files of different kinds give equal
fingerprints: gpt2 from `gpt2.tiktoken` and from a `tokenizer.json` is one tokenizer.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from tokenmill.errors import FormatError
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts

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
_MANY = 1 << 17
_RUN_OF_ARROW = 1 << 20  # ids that are worth importing pyarrow for; at a time
_RUN = 1 << 14  # ids spelled at a time; what this needs then stays in the processor's cache


def check_ids(spellings: Mapping[int, bytes], name: str) -> None:
    """Refuse ids that are negative, or so large that tables of them would fill the memory."""
    most = len(spellings) * 4 + _MOST_GAPS
    if not spellings or min(spellings) < 0 or max(spellings) >= most:
        ids = f"ids from {min(spellings):,} to {max(spellings):,}" if spellings else "no ids"
        raise FormatError(
            f"{name} has a vocabulary of {len(spellings):,} tokens with {ids}; "
            f"expected ids from 0 to {most - 1:,} at most"
        )


class Vocabulary:
    """id -> bytes, kept as one run of bytes and two arrays. Ids may have gaps."""

    def __init__(self, spellings: Mapping[int, bytes], *, name: str) -> None:
        check_ids(spellings, f"tokenizer {name}")
        self.name = name
        self.size = max(spellings) + 1
        self.spellings = spellings
        lengths = np.full(self.size, -1, np.int64)  # -1: no such id
        ids = np.fromiter(spellings, np.int64, len(spellings))
        lengths[ids] = np.fromiter(map(len, spellings.values()), np.int64, len(spellings))
        self._lengths = lengths
        self._has_gaps = len(spellings) < self.size
        ordered = b"".join(spellings[i] for i in sorted(spellings))
        self._text = np.frombuffer(ordered, np.uint8)
        self._starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))[:-1]])

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """Join the spellings of these ids; an id without one is a ValueError."""
        known = self.check(ids)
        run, spell = self._ways(known.size)
        return b"".join(spell(known[i : i + run])[0] for i in range(0, known.size, run))

    def decode_batch(
        self, ids: npt.NDArray[np.integer[Any]], starts: np.ndarray, ends: Ends
    ) -> list[bytes]:
        """The texts of the ids from each of `starts` up to each of `ends`, which come in order."""
        known = self.check(ids)
        texts = [b""] * len(ends)
        run, spell = self._ways(known.size)
        for begin in range(0, known.size, run):
            text, edges = spell(known[begin : begin + run])
            # Those that have ids in this run, and where these are in it.
            first, last = ends.searchsorted(begin, "right"), starts.searchsorted(begin + run)
            lows = edges[np.maximum(starts[first:last] - begin, 0)].tolist()
            highs = edges[np.minimum(ends[first:last] - begin, len(edges) - 1)].tolist()
            for number, low, high in zip(range(first, last), lows, highs, strict=True):
                texts[number] += text[low:high]
        return texts

    def check(self, ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        """These ids, flat; one that is not in the vocabulary is a ValueError."""
        flat = np.asarray(ids).ravel()
        is_signed = flat.dtype.kind == "i"
        if not flat.size or (
            not self._has_gaps
            and int(flat.max()) < self.size
            and not (is_signed and int(flat.min()) < 0)
        ):
            return flat
        bad = (flat < 0) | (flat >= self.size)
        if not bad.any():
            bad = self._lengths[flat] < 0
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(
                f"id {int(flat[at])} at position {at} is not in the vocabulary of {self.name} "
                f"({self.size:,} ids)"
            )
        return flat

    def _ways(
        self, num_ids: int
    ) -> tuple[int, Callable[..., tuple[bytes | memoryview, np.ndarray]]]:
        """How many ids to spell at a time, and how."""
        if num_ids < _MANY or (by_arrow := self._spell_by_arrow) is None:
            return _RUN, self._spell
        return _RUN_OF_ARROW, by_arrow

    def _spell(self, ids: npt.NDArray[np.integer[Any]]) -> tuple[bytes, np.ndarray]:
        """The text of some ids; where the spelling of each begins, and where the last ends."""
        lengths = self._lengths[ids]
        edges = np.concatenate([[0], np.cumsum(lengths)])
        # For every byte of the result, its place in the run of all spellings.
        places = np.repeat(self._starts[ids] - edges[:-1], lengths)
        places += np.arange(places.size)
        return self._text[places].tobytes(), edges

    @functools.cached_property
    def _spell_by_arrow(self) -> Callable[..., tuple[bytes | memoryview, np.ndarray]] | None:
        """What `_spell` does, in a third of the time; None where pyarrow is not installed."""
        try:
            import pyarrow
            import pyarrow.compute
        except ImportError:
            return None
        edges = np.append(self._starts, len(self._text)).astype(np.int32)
        buffers = [None, pyarrow.py_buffer(edges), pyarrow.py_buffer(self._text)]
        table = pyarrow.Array.from_buffers(pyarrow.binary(), self.size, buffers)

        def spell(ids: npt.NDArray[np.integer[Any]]) -> tuple[memoryview, np.ndarray]:
            # The ids were compared with the vocabulary before (`check`).
            taken = pyarrow.compute.take(table, pyarrow.array(ids), boundscheck=False)
            _, edges, text = taken.buffers()
            places = np.frombuffer(edges, np.int32)[: len(ids) + 1]
            return memoryview(text)[: int(places[-1])], places

        return spell


class SpelledTokenizer:
    """What tokenizers share: their ids have spellings, which give fingerprint and text."""

    name: str

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        raise NotImplementedError

    @property
    def cuts(self) -> re.Pattern[bytes] | None:
        return None

    @property
    def special_ids(self) -> Mapping[str, int]:
        return {}

    @property
    def memory_per_byte(self) -> int:
        return 0  # next to what reading the text takes

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """As in `Tokenizer`."""
        raise NotImplementedError

    def reference(self) -> Any:
        """None: there is nothing to compare with."""
        return None

    def encode(self, text: str | bytes) -> Ids:
        """The ids of one text, which must be UTF-8 where it is bytes."""
        data = text.encode() if isinstance(text, str) else text
        if self.name != "bytes":
            decode_texts([data], self.name)  # other encoders take UTF-8 without looking
        return self.encode_batch([data])[0]

    def bytes_of_ids(self) -> list[bytes]:
        """What each id adds to a text, by id; nothing for special ids and unused ones."""
        spellings = self._vocabulary.spellings
        special = set(self.special_ids.values())
        return [
            self._bytes_of(spellings[i]) if i in spellings and i not in special else b""
            for i in range(self._vocabulary.size)
        ]

    def _bytes_of(self, spelling: bytes) -> bytes:
        """What a piece that is spelled like this adds to a text."""
        return spelling

    @functools.cached_property
    def fingerprint(self) -> str:
        return fingerprint(self._vocabulary.spellings, self.encode_batch([PROBE])[0])

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        return self._vocabulary.decode(ids)

    def decode_batch(
        self,
        ids: npt.NDArray[np.integer[Any]],
        ends: Ends,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> list[bytes]:
        """As in `Tokenizer`."""
        starts = np.append(0, ends)[: len(ends)] if starts is None else starts
        if self.joins_spellings:
            return self._vocabulary.decode_batch(ids, starts, ends)
        return [self.decode(ids[i:j]) for i, j in zip(starts, ends, strict=True)]

    @property
    def joins_spellings(self) -> bool:
        """Whether a text is the spellings of its ids, one after the other."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built when first used: it is large, or does not pickle."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


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
