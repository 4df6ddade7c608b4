"""What a tokenizer is to tokenmill.

Texts come as UTF-8 bytes and ids leave as one flat array with the end of each text, never as
lists: a list of Python integers costs 8 to 36 bytes a token and most of the time of encoding.
Nothing is added to a text (no begin, no end, no padding) and nothing in a text is special: the
characters `<|endoftext|>` in a document are encoded like any others.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tokenmill.base.human import one_line, plural
from tokenmill.errors import BadInputError, FormatError, TokenmillError
from tokenmill.tokens.vocabulary import PROBE, Ends, GivenIds, Ids, Vocabulary, fingerprint

LITERAL = "literal "  # begins the names of counts of special tokens
EncodeBatch = Callable[[Sequence[bytes]], tuple[Ids, Ends]]


class Tokenizer:
    """Texts to ids and back. Every tokenizer is a frozen dataclass, and builds its encoder when
    first used."""

    if TYPE_CHECKING:  # fields of some tokenizers, properties of others

        @property
        def name(self) -> str:
            """What `load` was given, without folders: `gpt2`, `bytes`, `tokenizer.json`."""

        @property
        def end_of_text_id(self) -> int:
            """The id that closes every document; `encode_batch` never gives it."""

        @property
        def end_of_text(self) -> str | None:
            """How that id is written, `<|endoftext|>` for gpt2; None when it has no spelling."""

        @property
        def backend(self) -> str:
            """The library that encodes; `tokenmill` itself for bytes and characters."""

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, special ones included."""
        return self._vocabulary.size

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Tokens that no text becomes (begin, end, sentinels), by how they are written."""
        return {}

    @property
    def special_pattern(self) -> str:
        """An expression that finds special tokens where they mean themselves: chat templates."""
        names = sorted(filter(None, self.special_ids), key=len, reverse=True)
        return "|".join(map(re.escape, names))

    @property
    def cuts(self) -> re.Pattern[bytes] | None:
        """Where a text may be cut without changing its ids: at `match.end()`. None: nowhere."""
        return None

    @property
    def memory_per_byte(self) -> int:
        """Bytes of memory that encoding takes for each byte of a text that may not be cut."""
        return 0  # next to what reading the text takes

    @functools.cached_property
    def fingerprint(self) -> str:
        """32 hex digits: equal when vocabulary and behaviour are equal."""
        return fingerprint(self._vocabulary.spellings, self.encode_batch([PROBE])[0])

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """All ids in one array, and where each text ends in it (exclusive, one per text)."""
        raise NotImplementedError

    def encode(self, text: str | bytes) -> Ids:
        """The ids of one text, which must be UTF-8 where it is bytes."""
        data = text.encode() if isinstance(text, str) else text
        if self.name != "bytes":
            decode_texts([data], self.name)  # other encoders take UTF-8 without looking
        return self.encode_batch([data])[0]

    @property
    def joins_spellings(self) -> bool:
        """Whether a text is the spellings of its ids, one after the other."""
        return True

    def decode(self, ids: GivenIds) -> bytes:
        """The text of these ids; an id outside the vocabulary is a ValueError."""
        return self._vocabulary.decode(ids)

    def decode_batch(
        self,
        ids: GivenIds,
        ends: Ends,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> list[bytes]:
        """The texts that `encode_batch` gave these ids and ends for.

        With `starts`, each begins there, and the ids between them are of no text.
        """
        starts = np.append(0, ends)[: len(ends)] if starts is None else starts
        if self.joins_spellings:
            return self._vocabulary.decode_batch(ids, starts, ends)
        return [self.decode(ids[i:j]) for i, j in zip(starts, ends, strict=True)]

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

    def with_begin_token(self, number: int) -> "Tokenizer":
        """This tokenizer; that of a rank file, with a free id as its begin token."""
        return self

    def state(self) -> dict[str, Any]:
        """JSON that `from_state` turns into this tokenizer on another machine."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built when first used: it is large, or does not pickle."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def note_if_slow(tokenizer: Tokenizer) -> list[str]:
    """Return a sentence where the package that a file is from encodes, and not gigatoken."""
    if tokenizer.backend in ("gigatoken", "tokenmill"):
        return []
    return [
        f"{tokenizer.name} is encoded by the package {tokenizer.backend}: gigatoken, which is 10 "
        "times as fast or more, does not give the same ids"
    ]


def count_literals(tokenizer: Tokenizer, texts: Sequence[bytes]) -> Counter[str]:
    """Count the first special tokens where texts spell them out, by LITERAL and the spelling."""
    names = dict.fromkeys(filter(None, [tokenizer.end_of_text, *tokenizer.special_ids]))
    counts: Counter[str] = Counter()
    for name in itertools.islice(names, 8):
        literal = name.encode()
        # One byte is looked for first: most texts do not have it, and that is soon known.
        counts[LITERAL + name] = sum(text.count(literal) for text in texts if literal[:1] in text)
    return counts


def note_on_literals(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence for each special token that was counted."""
    names = [name.removeprefix(LITERAL) for name in counts if LITERAL in name and counts[name]]
    return [
        f"kept as text: {plural(counts[LITERAL + name], 'time')} {name!r}, a special token; to end "
        f'documents there, pass separator="{name}" to `tokenmill prepare` or `pretokenize`'
        for name in names
    ]


def ends_of(parts: Sequence[Sized]) -> Ends:
    """Where each part ends when they are put one after another."""
    return np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), dtype=np.int64)


def decode_texts(texts: Sequence[bytes], name: str) -> list[str]:
    """Each text as a string; the first one that is not UTF-8 is a BadInputError."""
    strings = []
    for number, text in enumerate(texts):
        try:
            strings.append(text.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"text {number} is not UTF-8 at byte {error.start}, and the tokenizer {name} "
                "reads characters",
                hint="the tokenizer `bytes` takes anything",
            ) from None
    return strings


@contextmanager
def failures_of(
    library: str, doing: str, *, kind: type[TokenmillError] = FormatError
) -> Iterator[None]:
    """Raise an error of ours for whatever `library` raises; `doing` says what it was asked.

    `tokenizers` raises bare Exceptions. A bug in what is written in Rust (gigatoken, tiktoken,
    `tokenizers`) is a `PanicException`, which `except Exception` does not see.
    """
    try:
        yield
    except (TokenmillError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # Ctrl-C, an exit
        reason = one_line(str(error).strip().partition("\n")[0])[:300] or type(error).__name__
        raise kind(f"{library} cannot {doing}: {reason}") from None
