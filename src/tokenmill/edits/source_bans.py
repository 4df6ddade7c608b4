"""The bans of one source: which of its tokens are not trained on, from which sample on.

A ban changes no row and no order: it only masks targets. So all that it needs are the rows.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokenmill.base.groups import groups_of
from tokenmill.edits.token_ranges import NO_TOKENS, Parts, TokenRanges, row_by_row
from tokenmill.order.spans import Spans


@dataclass(frozen=True)
class SourceBans:
    """Bans of one source, in the order of the samples from which they hold."""

    firsts: tuple[int, ...] = ()
    """The first sample for which each holds, ascending."""
    tokens: tuple[TokenRanges, ...] = ()
    """The tokens of each ban."""

    def and_from(self, first: int, tokens: TokenRanges) -> "SourceBans":
        """Return these bans and one more, which holds at or after all others."""
        return SourceBans((*self.firsts, first), (*self.tokens, tokens))

    @property
    def stretches(self) -> list[tuple[int, TokenRanges]]:
        """The first sample of each stretch under the same bans, and all tokens banned in it."""
        banned = (all_of(self.tokens[:number]) for number in range(len(self.tokens) + 1))
        return list(zip((0, *self.firsts), banned, strict=True))

    def ban_all(self, num_tokens: int) -> bool:
        """Return True if nothing is left of an axis; its first token is never a target."""
        if sum(tokens.count for tokens in self.tokens) < num_tokens - 1:
            return False
        return bool(all_of(self.tokens).hold(np.array([1]), np.array([num_tokens]))[0])

    def parts(
        self, samples: np.ndarray, starts: np.ndarray, lengths: np.ndarray, most: int
    ) -> Parts:
        """Return the banned tokens among start .. start+length-1 of rows of these samples; 1-D.

        `most` is the length of the longest row.
        """
        parts = [(np.empty(0, np.int64),) * 3]
        for banned, here in self._by_ban(samples):
            rows = here[banned.near(starts[here], most)]
            which, lows, highs = banned.inside(starts[rows], starts[rows] + lengths[rows])
            parts.append((rows[which], lows, highs))
        return row_by_row(parts)

    def leave(self, spans: Spans, samples: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Return True for each row with a target among tokens start .. stop-1 that is not banned.

        `samples` are those of the rows.
        """
        first, end = spans.targets
        lows = np.maximum(first, start)
        highs = np.minimum(end, stop)
        left = lows < highs
        for banned, here in self._by_ban(samples[spans.row]):
            left[here] &= ~banned.hold(lows[here], highs[here])
        kept = np.zeros(len(samples), bool)
        kept[spans.row[left]] = True
        return kept

    def _by_ban(self, samples: np.ndarray) -> Iterator[tuple[TokenRanges, np.ndarray]]:
        """Yield the tokens that are banned for some of the samples, and which of them these are."""
        for count, here in groups_of(np.searchsorted(self.firsts, samples, side="right")):
            if count:
                yield all_of(self.tokens[:count]), here


@functools.lru_cache(maxsize=4)
def all_of(bans: tuple[TokenRanges, ...]) -> TokenRanges:
    """Return the tokens of several bans; those of the few stretches asked for last are kept."""
    if len(bans) == 1:
        return bans[0]
    if not bans:
        return NO_TOKENS
    return TokenRanges(
        np.concatenate([tokens.starts for tokens in bans]),
        np.concatenate([tokens.stops for tokens in bans]),
    )
