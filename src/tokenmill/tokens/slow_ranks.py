"""A rank file through tiktoken, with any pattern at all: patterns of one's own are in its dialect.

About 10 MB/s on one core. tiktoken leaves out what a pattern does not match; here that is an error.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tokenmill.errors import BadInputError, MissingExtraError, PrepareError
from tokenmill.tokens.tokenizer import decode_texts, ends_of, failures_of
from tokenmill.tokens.vocabulary import Ends, Ids


class SlowRanks:
    """tiktoken on the ranks that a function gives, without special tokens; built when first used.

    `why` says for what tiktoken is needed.
    """

    def __init__(
        self, pattern: str, read_ranks: Callable[[], Mapping[int, bytes]], name: str, why: str
    ) -> None:
        self._pattern = pattern
        self._read_ranks = read_ranks
        self._name = name
        self._why = why

    @functools.cached_property
    def _ranks(self) -> Mapping[int, bytes]:
        return self._read_ranks()

    @functools.cached_property
    def _encoding(self) -> Any:
        try:
            from tiktoken import Encoding
        except ImportError:
            raise MissingExtraError(self._why, package="tiktoken", extra="tiktoken") from None
        with failures_of("tiktoken", f"use the pattern {self._pattern!r:.200}"):
            return Encoding(
                self._name,
                pat_str=self._pattern,
                mergeable_ranks={spelling: rank for rank, spelling in self._ranks.items()},
                special_tokens={},
            )

    @functools.cached_property
    def _lengths(self) -> np.ndarray:
        lengths = np.zeros(max(self._ranks) + 1, np.int64)
        lengths[list(self._ranks)] = list(map(len, self._ranks.values()))
        return lengths

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        found: list[Ids] = []
        for text, string in zip(texts, decode_texts(texts, self._name), strict=True):
            splits = f"split a text by the pattern {self._pattern!r:.200}"
            with failures_of("tiktoken", splits, kind=PrepareError):
                found.append(self._encoding.encode_to_numpy(string, disallowed_special=()))
            if (kept := int(self._lengths[found[-1]].sum())) != len(text):
                raise not_matched(self._pattern, kept, len(text), "bytes")
        return np.concatenate([np.empty(0, np.uint32), *found]), ends_of(found)


def not_matched(pattern: str, kept: int, size: int, unit: str) -> BadInputError:
    """Of a text that a pattern does not match as a whole."""
    return BadInputError(
        f"the pattern {pattern!r:.200} matches {kept:,} of the {size:,} {unit} of a text; "
        "the rest would be lost",
        hint=r"add an alternative for all other characters, such as |[\s\S]",
    )
