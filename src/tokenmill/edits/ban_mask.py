"""Banned tokens in batches: they stay in the inputs, and have no loss as targets."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmill.batches.batch import BannedRuns
from tokenmill.batches.located import Located
from tokenmill.edits.source_bans import SourceBans
from tokenmill.edits.token_ranges import row_by_row


class BanMask:
    """Finds banned tokens of batches; what is found for many steps together is kept."""

    def __init__(self, bans: Mapping[int, SourceBans]) -> None:
        """`bans` of each source, by the sample numbers of the run from which they hold."""
        self._bans = bans
        self._latest: tuple[Located, dict[int, BannedRuns]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_latest": None}

    def __call__(self, located: Located, number: int, length: int) -> BannedRuns | None:
        """The banned tokens of one of the located steps, in rows of `length` tokens."""
        latest = self._latest
        if latest is None or latest[0] is not located:
            latest = self._latest = located, self._runs_in(located, length)
        return latest[1].get(number)

    def _runs_in(self, located: Located, length: int) -> dict[int, BannedRuns]:
        """Runs of banned tokens in the flat rows of each step that has some."""
        spans = located.spans
        samples = located.samples.reshape(-1)[spans.row]
        parts = [(np.empty(0, np.int64),) * 3]
        for source, bans in self._bans.items():
            here = np.flatnonzero(spans.source == source)
            start = spans.start[here]
            which, low, high = bans.parts(samples[here], start, spans.length[here], length)
            parts.append((here[which], low, high))
        span, low, high = row_by_row(parts)
        column = spans.column[span] + (low - spans.start[span])
        num_rows = located.samples.shape[1]
        step, first = np.divmod(spans.row[span] * length + column, num_rows * length)
        stop = first + (high - low)
        steps, edges = np.unique(step, return_index=True)
        bounds = itertools.pairwise([*edges.tolist(), len(step)])
        runs = [BannedRuns(first[i:j], stop[i:j]) for i, j in bounds]
        return dict(zip(steps.tolist(), runs, strict=True))
