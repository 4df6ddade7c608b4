"""The bans of one source: which of its tokens are not trained on, from which of its samples on.

A ban changes no row and no order: it only masks targets. So all that it needs are the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokenmill.base.groups import groups_of
from tokenmill.edits.grown_source import Source, targets_of
from tokenmill.edits.token_ranges import NO_TOKENS, Parts, TokenRanges, row_by_row


@dataclass(frozen=True, eq=False)
class SourceBans:
    """Bans of one source, in the order of the samples from which they hold."""

    firsts: tuple[int, ...] = ()
    """The first sample of the source for which each holds, ascending."""
    banned: tuple[TokenRanges, ...] = ()
    """All tokens that are banned from each of these samples on."""

    def and_from(self, first: int, tokens: TokenRanges) -> "SourceBans":
        """Return these bans and one more, which holds at or after all others."""
        together = self.banned[-1].joined(tokens) if self.banned else tokens
        return SourceBans((*self.firsts, first), (*self.banned, together))

    @property
    def stretches(self) -> list[tuple[int, TokenRanges]]:
        """The first sample of each stretch under the same bans, and the banned tokens."""
        return [(0, NO_TOKENS), *zip(self.firsts, self.banned, strict=True)]

    def parts(self, index: np.ndarray, starts: np.ndarray, lengths: np.ndarray, most: int) -> Parts:
        """Return the banned tokens among start .. start+length-1 of rows of these samples; 1-D.

        `most` is the length of the longest row.
        """
        found = [(np.empty(0, np.int64),) * 3]
        for banned, here in self._by_ban(index):
            rows = here[banned.near(starts[here], most)]
            which, lows, highs = banned.inside(starts[rows], starts[rows] + lengths[rows])
            found.append((rows[which], lows, highs))
        return row_by_row(found)

    def leave(self, source: Source, index: np.ndarray, tokens: tuple[int, int]) -> np.ndarray:
        """Return True for each sample with a target among tokens start .. stop-1 not banned."""
        row, lows, highs = targets_of(source, index)
        lows = np.maximum(lows, tokens[0])
        highs = np.minimum(highs, tokens[1])
        left = lows < highs
        for banned, here in self._by_ban(index[row]):
            left[here] &= ~banned.hold(lows[here], highs[here])
        kept = np.zeros(len(index), bool)
        kept[row[left]] = True
        return kept

    def _by_ban(self, index: np.ndarray) -> Iterator[tuple[TokenRanges, np.ndarray]]:
        """Yield the tokens banned for some of the samples, and the numbers of these samples."""
        number = np.searchsorted(self.firsts, index, side="right") - 1
        for n, here in groups_of(number):
            if n >= 0:
                yield self.banned[n], here
