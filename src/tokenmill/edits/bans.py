"""Bans: which tokens of a source are not trained on, from which sample on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tokenmill.batches.batch import Located
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Ban
from tokenmill.order.spans import runs

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Parts of some ranges, (parts,) each: number of the range, first token, token after the last."""
Bans = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Banned ranges, (ranges,) each: sample from which it holds, first token, token after the last."""
NOTHING = (np.empty(0, np.int64),) * 3
NEVER = np.iinfo(np.int64).max


class SourceBans:
    """The banned tokens of one source, each from the earliest sample of a ban that names it."""

    def __init__(self, bans: Iterable[Bans] = ()) -> None:
        """Take ranges in any order, which may overlap."""
        tables = zip(NOTHING, *bans, strict=True)
        firsts, starts, stops = (np.concatenate(table, dtype=np.int64) for table in tables)
        # Between two neighbouring edges all tokens are banned from the same sample on.
        edges = np.unique(np.concatenate([starts, stops]))
        low = edges.searchsorted(starts)
        counts = np.maximum(edges.searchsorted(stops) - low, 0)
        since = np.full(len(edges), NEVER)
        np.minimum.at(since, runs(low, counts), firsts.repeat(counts))
        changes = np.flatnonzero(np.diff(since, prepend=NEVER))
        (banned,) = (since[changes] < NEVER).nonzero()
        # (ranges,) each, ascending.
        self.since = since[changes[banned]]
        self._starts = edges[changes[banned]]
        self._stops = edges[changes[banned + 1]]
        self._starts_and_end = np.append(self._starts, NEVER)

    def counted_by(self, count: Callable[[int], int]) -> "SourceBans":
        """Return the same bans from other numbers on, which `count` gives for samples."""
        samples, which = np.unique(self.since, return_inverse=True)
        firsts = np.array([count(sample) for sample in samples.tolist()], np.int64)
        return SourceBans([(firsts[which], self._starts, self._stops)])

    def inside(self, samples: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """Return the banned parts of start .. stop-1 in rows of these samples, in any order."""
        order = np.argsort(starts)  # neighbours are searched for in the same cache
        first = self._stops.searchsorted(starts[order], side="right")
        is_hit = (self._starts_and_end[first] < stops[order]) & (starts < stops)[order]
        hit = order[is_hit]
        counts = self._starts.searchsorted(stops[hit], side="left") - first[is_hit]
        which = hit.repeat(counts)
        number = runs(first[is_hit], counts)
        holds = self.since[number] <= samples[which]
        which = which[holds]
        number = number[holds]
        lows = np.maximum(self._starts[number], starts[which])
        return which, lows, np.minimum(self._stops[number], stops[which])

    def leave_nothing_of(self, data: TokenDataset) -> bool:
        """Return True if every token that can be a target is banned at last."""
        # The first token of an axis is never a target.
        edges = (np.array([edge]) for edge in (NEVER - 1, 1, data.num_tokens))
        _, lows, highs = self.inside(*edges)
        return int((highs - lows).sum()) == data.num_tokens - 1


NO_BANS = SourceBans()


def banned_by(record: RecordedEdit, data: TokenDataset) -> Bans:
    """Return the tokens of the data that a ban means, and from when on."""
    ban = record.edit
    assert isinstance(ban, Ban)
    if ban.tokens is not None:
        start, stop = ban.tokens
        if stop > data.num_tokens:
            raise ValueError(
                f"tokens {start} to {stop} are to be banned, and the source has only "
                f"{data.num_tokens:,}"
            )
        return np.array([record.at]), np.array([start]), np.array([stop])
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
    if not (starts < stops).any():
        raise ValueError("the documents to be banned have no tokens")
    return np.full(len(starts), record.at), starts, stops


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
        parts = [NOTHING]
        for source, bans in self._bans.items():
            here = np.flatnonzero(spans.source == source)
            start = spans.start[here]
            which, lows, highs = bans.inside(samples[here], start, start + spans.length[here])
            parts.append((here[which], lows, highs))
        span, lows, highs = (np.concatenate(table) for table in zip(*parts, strict=True))
        order = np.argsort(span, kind="stable")
        span = span[order]
        first = spans.row[span] * length + spans.column[span] + (lows[order] - spans.start[span])
        return first, first + (highs - lows)[order]
