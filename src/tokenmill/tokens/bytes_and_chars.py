"""`bytes`: one id per byte, 256 is the end of a text. `chars`: one id per character.

`chars` learns its vocabulary from the text itself, in two passes: `chars_of` over all the text
(parts may be done apart and the sets joined), then encoding by a table of all code points, 4 MB. On
one core 150 MB/s to learn, 350 MB/s to encode. It is not for many scripts at once: Chinese text
alone has thousands of characters, each a row of the embedding.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.errors import BadInputError
from tokenmill.tokens.cuts import AT_CHARACTERS, AT_SPACES_AND_COMMAS
from tokenmill.tokens.tokenizer import Tokenizer, decode_texts, ends_of
from tokenmill.tokens.vocabulary import PROBE, Ends, Ids, Vocabulary, fingerprint

_CODE_POINTS = 0x110000
_UNKNOWN = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class BytesTokenizer(Tokenizer):
    """One id a byte."""

    name: str = "bytes"
    end_of_text_id: int = 256
    backend = "tokenmill"
    end_of_text: str | None = None
    """None: 256 has no spelling in a text, so no text can be mistaken for it."""
    cut_at: str = "characters"
    """Or `words`, where the patterns of gpt2 and others cut, too; or `nothing`: to count words."""

    @property
    def cuts(self) -> re.Pattern[bytes] | None:
        # For the ids any byte would do; characters keep the parts valid UTF-8.
        return {"characters": AT_CHARACTERS, "words": AT_SPACES_AND_COMMAS}.get(self.cut_at)

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary({**{b: bytes([b]) for b in range(256)}, 256: b""}, name=self.name)

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        return np.frombuffer(b"".join(texts), np.uint8).astype(np.uint32), ends_of(texts)

    def state(self) -> dict[str, Any]:
        state = {"kind": "bytes", "name": self.name, "fingerprint": self.fingerprint}
        return state if self.cut_at == "characters" else {**state, "cut_at": self.cut_at}


def chars_of(texts: Iterable[bytes]) -> set[str]:
    """The characters that occur. The union of two results is that of the two texts together."""
    seen = np.zeros(_CODE_POINTS, bool)
    for text in texts:
        seen[_code_points(decode_texts([text], "chars"))] = True
    return set(map(chr, np.flatnonzero(seen).tolist()))


@dataclass(frozen=True)
class CharsTokenizer(Tokenizer):
    """One id a character; the id after the last is the end of a text."""

    characters: str
    """Sorted, each once; the place of a character is its id."""
    name: str = "chars"
    end_of_text: str | None = None
    backend = "tokenmill"
    cuts = AT_CHARACTERS

    def __post_init__(self) -> None:
        if "".join(sorted(set(self.characters))) != self.characters:
            raise ValueError("the characters of a vocabulary must be sorted, each once")

    @classmethod
    def learn(cls, texts: Iterable[bytes]) -> "CharsTokenizer":
        return cls.build(chars_of(texts))

    @classmethod
    def build(cls, characters: Iterable[str]) -> "CharsTokenizer":
        return cls("".join(sorted(set(characters))))

    @property
    def end_of_text_id(self) -> int:
        return len(self.characters)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the vocabulary and of those of the probe's characters that are in it."""
        known = set(self.characters)
        probe = "".join(c for c in PROBE.decode() if c in known).encode()
        return fingerprint(self._vocabulary.spellings, self.encode_batch([probe])[0])

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        spellings = {number: c.encode() for number, c in enumerate(self.characters)}
        return Vocabulary({**spellings, self.end_of_text_id: b""}, name=self.name)

    @functools.cached_property
    def _table(self) -> Ids:
        table = np.full(_CODE_POINTS, _UNKNOWN, np.uint32)
        table[_code_points([self.characters])] = np.arange(len(self.characters), dtype=np.uint32)
        return table

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """Look every code point up; one that was not learned is a BadInputError."""
        strings = decode_texts(texts, self.name)
        ends = ends_of(strings)
        points = _code_points(strings)
        ids = self._table[points]
        unknown = ids == _UNKNOWN
        if unknown.any():
            # The first unknown character, as a place in one of the texts.
            at = int(unknown.argmax())
            number = int(np.searchsorted(ends, at, side="right"))
            place = at - (int(ends[number - 1]) if number else 0)
            found = f"{chr(points[at])!r} (U+{int(points[at]):04X}"
            raise BadInputError(
                f"character {found}, character {place} of text {number}) is not in the vocabulary "
                f"of {len(self.characters)} characters",
                hint="it was learned from other text; prepare the old and the new text together",
            )
        return ids, ends

    def state(self) -> dict[str, Any]:
        return {
            "kind": "chars",
            "name": self.name,
            "characters": self.characters,
            "fingerprint": self.fingerprint,
        }


def from_state(state: dict[str, Any]) -> BytesTokenizer | CharsTokenizer:
    """The tokenizer of a stored state."""
    if state["kind"] == "chars":
        return CharsTokenizer(str(state["characters"]))
    return BytesTokenizer(cut_at=str(state.get("cut_at", "characters")))


def _code_points(strings: Sequence[str]) -> Ids:
    return np.frombuffer("".join(strings).encode("utf-32-le"), "<u4").astype(np.uint32, copy=False)
