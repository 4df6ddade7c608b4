"""Tokenizers with two encoders, and the proof that both give the same ids.

gigatoken is 10 to 100 times as fast as the package that a file is from. Which of the two encodes is
decided once: for rank files by their pattern, for others when the file is loaded, and stored in the
state. Encoders differ where scripts, white space, numbers and normal forms meet, not in the middle
of a sentence: so the texts are such places.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar, Self
from unicodedata import ucd_3_2_0

import numpy as np

from tokenmill.errors import FormatError, PrepareError
from tokenmill.tokens.tokenizer import EncodeBatch, Tokenizer
from tokenmill.tokens.vocabulary import PROBE, Ends, Ids

MOST_SPELLINGS = 4000  # of a vocabulary that are compared

# Texts of many scripts; the last two are of broken or unusual normal forms, case, marks that are
# not seen, and controls.
_SCRIPTS = Path(__file__).parent / "data" / "scripts.json"


def _characters(points: Iterable[int]) -> list[str]:
    """Characters that every library knows: each has its own version of Unicode."""
    return [chr(p) for p in points if ucd_3_2_0.category(chr(p)) != "Cn"]


_BLANKS = " \n\r\t\u00a0\u2003\u3000"


@functools.cache
def probes() -> list[bytes]:
    """The texts."""
    return [
        text.encode()
        for text in (
            PROBE.decode(),
            *json.loads(_SCRIPTS.read_bytes()),
            " ".join(_characters(range(0x21, 0x3000, 5))),
            "".join(_characters(range(0x20, 0xD7FF, 11))),
            "".join(_characters(range(0x10000, 0x20000, 37))),
            "".join(map(chr, range(0x1F300, 0x1F650, 7))),
            "".join(f"{a}{b}{c}" for a in "a1.\n \t" for b in "  \n\r\u3000'" for c in "Zs9\n /-"),
            "I'll I'LL don't DON'T we've WE'VE he'd 's'S'T'Re'vE'M'lL 'tis \u2019s '\u017f",
            "0 12 123 1234 12345 123456789 1,000.00 \u0661\u0662\u0663\u0664 \u00bd\u2167a1b22c333",
            # The spellings of SentencePiece, and of tokens that end or begin a text.
            "\u2581 \u2581\u2581a a\u2581b <0x0A><0xFF> <unk> <s> </s> <pad> [UNK] [CLS] ##ing",
            "".join("x" + " " * n for n in range(1, 40))
            + "".join("y" + "\n" * n for n in range(9)),
            "".join("z" + "\t" * n + " " * (n % 3) for n in range(9)),
            "",
            "a" * 3000,
            "ab" * 1500 + "\u6c34" * 900 + "7" * 500 + "=" * 700,
            " " * 600,
            # White space at both ends of a text, where patterns look ahead and prefixes are added.
            *map("".join, product(_BLANKS[:5], repeat=3)),
            *(f"{a}b{c}{d}" for a in _BLANKS for c in _BLANKS for d in ("", *_BLANKS[:3])),
        )
    ]


class ComparedTokenizer(Tokenizer):
    """One whose `backend` is `gigatoken`, or the name of the package."""

    package: ClassVar[str]

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        """gigatoken; FormatError for a form that it does not have."""
        raise NotImplementedError

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        raise NotImplementedError

    def checked(self) -> Self:
        """This tokenizer, of a stored state that nobody vouches for."""
        if self.backend not in ("gigatoken", self.package):
            raise FormatError(f"the stored tokenizer names an unknown encoder, {self.backend!r}")
        if self.end_of_text_id not in self._vocabulary.spellings:
            raise FormatError(f"the end-of-text id {self.end_of_text_id} is not in the vocabulary")
        return self

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        return self._fast(texts) if self.backend == "gigatoken" else self._encode_slowly(texts)

    def _gives_same_ids(self, added: Sequence[str]) -> bool:
        """Return True if both encoders agree; `added` tokens are looked for as they are."""
        spellings = list(self._vocabulary.spellings.values())
        some = map(self._bytes_of, spellings[:: 1 + len(spellings) // MOST_SPELLINGS])
        words = [spelling.decode(errors="ignore").encode() for spelling in some]
        # Added tokens as words, inside words and after spaces.
        shapes = ("{0}", "word{0}word {0} {0}", " {0}\n{0}  {0}{0}", "{0} a")
        in_context = [shape.format(token).encode() for token in added for shape in shapes]
        texts = [*probes(), *in_context, *words]
        try:
            ids, ends = self._fast(texts)
        except (FormatError, PrepareError):
            return False
        exact_ids, exact_ends = self._encode_slowly(texts)
        return np.array_equal(ids, exact_ids) and np.array_equal(ends, exact_ends)
