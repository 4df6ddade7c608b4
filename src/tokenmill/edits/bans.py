"""Bans: which tokens of a source are not trained on, from which sample on.

A ban changes no row and no order: it only masks targets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.batches.batch import Located
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Ban
from tokenmill.order.spans import groups_of, runs

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Parts of some ranges, (parts,) each: number of the range, first token, token after the last."""


class TokenRanges:
    """Ranges of tokens on the axis of one source, ascending, with a gap between neighbours."""

    def __init__(self, starts: np.ndarray, stops: np.ndarray) -> None:
        """Take ranges in any order, which may overlap."""
        some = np.flatnonzero(starts < stops)
        order = some[np.argsort(starts[some], kind="stable")]
        firsts = starts[order].astype(np.int64)
        ends = np.maximum.accumulate(stops[order].astype(np.int64))
        begins = np.ones(len(firsts) + 1, bool)  # True where a range begins; then the end
        np.greater(firsts[1:], ends[:-1], out=begins[1:-1])
        self.starts: np.ndarray = firsts[begins[:-1]]
        self.stops: np.ndarray = ends[begins[1:]]
        self._starts_and_end = np.append(self.starts, np.iinfo(np.int64).max)

    def __or__(self, other: "TokenRanges") -> "TokenRanges":
        return TokenRanges(
            np.concatenate([self.starts, other.starts]), np.concatenate([self.stops, other.stops])
        )

    def inside(self, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """Return the parts of start .. stop-1 that are in a range."""
        first = np.searchsorted(self.stops, starts, side="right")
        (hit,) = ((self._starts_and_end[first] < stops) & (starts < stops)).nonzero()
        after = np.searchsorted(self.starts, stops[hit], side="left")
        counts = after - first[hit]
        which = hit.repeat(counts)
        number = runs(first[hit], counts)
        lows = np.maximum(self.starts[number], starts[which])
        return which, lows, np.minimum(self.stops[number], stops[which])


NO_TOKENS = TokenRanges(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class SourceBans:
    """The bans of one source, in stretches of samples that have the same ones."""

    firsts: tuple[int, ...] = (0,)
    """The first sample of each stretch."""
    tokens: tuple[TokenRanges, ...] = (NO_TOKENS,)
    """All tokens that are banned in it."""

    def and_from(self, first: int, tokens: TokenRanges) -> "SourceBans":
        """Return these bans and one more, which holds at or after all others."""
        tokens = self.tokens[-1] | tokens
        if first == self.firsts[-1]:
            return SourceBans(self.firsts, (*self.tokens[:-1], tokens))
        return SourceBans((*self.firsts, first), (*self.tokens, tokens))

    def inside(self, samples: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """Return the banned parts of start .. stop-1 in rows of these samples, range by range."""
        parts = [NO_PARTS]
        for stretch, here in groups_of(np.searchsorted(self.firsts, samples, side="right") - 1):
            here = here[np.argsort(starts[here])]  # neighbours are searched for in the same cache
            which, lows, highs = self.tokens[stretch].inside(starts[here], stops[here])
            parts.append((here[which], lows, highs))
        return _joined(parts)


NO_PARTS = (np.empty(0, np.int64),) * 3


def _joined(parts: list[Parts]) -> Parts:
    """Join several tables into one, range by range."""
    which, lows, highs = (np.concatenate(table) for table in zip(*parts, strict=True))
    order = np.argsort(which, kind="stable")
    return which[order], lows[order], highs[order]


def banned_by(record: RecordedEdit, data: TokenDataset) -> TokenRanges:
    """Return the tokens of the data that a ban means."""
    ban = record.edit
    assert isinstance(ban, Ban)
    if ban.tokens is not None:
        start, stop = ban.tokens
        if stop > data.num_tokens:
            raise ValueError(
                f"tokens {start} to {stop} are to be banned, and the source has only "
                f"{data.num_tokens:,}"
            )
        return TokenRanges(np.array([start]), np.array([stop]))
    if record.opened is None:
        documents = [run if isinstance(run, tuple) else (run, run) for run in ban.documents or ()]
        firsts, lasts = np.array(documents, np.int64).T
    else:
        firsts = lasts = record.opened
    try:
        starts, _ = data.document_ranges(firsts)
        _, stops = data.document_ranges(lasts)
    except IndexError as error:
        raise ValueError(f"a document that does not exist is to be banned: {error}") from None
    tokens = TokenRanges(starts, stops)
    if not len(tokens.starts):
        raise ValueError("the documents to be banned have no tokens")
    return tokens


class BanMask:
    """Finds the banned tokens of batches; what is found for many steps together is kept."""

    def __init__(self, bans: Mapping[int, SourceBans]) -> None:
        """`bans` of each source, by the sample numbers of the run from which they hold."""
        self._bans = bans
        self._latest: tuple[Located, np.ndarray, np.ndarray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_latest": None}

    def __call__(self, located: Located, low: int, high: int, length: int) -> np.ndarray | None:
        """(rows, length) bool: the banned tokens of steps low .. high-1; None: there are none."""
        if self._latest is None or self._latest[0] is not located:
            self._latest = located, *self._parts_in_rows(located, length)
        _, starts, stops = self._latest
        first, end = (step * located.samples.shape[1] * length for step in (low, high))
        i, j = starts.searchsorted((first, end))
        if i == j:
            return None
        flags = np.zeros(end - first, bool)
        parts = ((edges[i:j] - first).tolist() for edges in (starts, stops))
        for start, stop in zip(*parts, strict=True):
            flags[start:stop] = True
        return flags.reshape(-1, length)

    def _parts_in_rows(self, located: Located, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The banned parts of the flat rows of all steps, ascending: first tokens, and ends."""
        spans = located.spans
        samples = located.samples.reshape(-1)[spans.row]
        parts = [NO_PARTS]
        for source, bans in self._bans.items():
            here = np.flatnonzero(spans.source == source)
            start = spans.start[here]
            which, lows, highs = bans.inside(samples[here], start, start + spans.length[here])
            parts.append((here[which], lows, highs))
        span, lows, highs = _joined(parts)
        first = spans.row[span] * length + spans.column[span] + (lows - spans.start[span])
        return first, first + (highs - lows)
