"""Rows of some steps whose tokens were located, and not yet read."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.order.spans import Spans

if TYPE_CHECKING:
    from tokenmill.batches.window_documents import RowBegins


@dataclass(frozen=True, eq=False)
class Located:
    """What the batches of some steps are made from; steps and rows as in `samples`."""

    samples: np.ndarray
    """(steps, rows): the sample number of each row."""
    spans: Spans
    """Of all rows, one step after the other."""
    copies: Spans
    """What is copied for them: the spans, or the spans of inputs and of targets."""
    sources: np.ndarray
    """(steps, rows)."""
    starts: np.ndarray
    """(steps, rows): the first token of each row."""
    begins: "RowBegins | None"
    """Where documents begin, as far as that is known without the tokens."""

    def spans_of(self, low: int, high: int) -> Spans:
        """The spans of the steps low .. high-1."""
        rows = self.samples.shape[1]
        return self.spans.between(low * rows, high * rows)

    def copies_of(self, low: int, high: int) -> Spans:
        """What is copied for the steps low .. high-1."""
        rows = self.copies.num_rows // len(self.samples)
        return self.copies.between(low * rows, high * rows)

    def begins_of(self, low: int, high: int) -> "RowBegins | None":
        """Where documents begin in the rows of the steps low .. high-1."""
        rows = self.samples.shape[1]
        return None if self.begins is None else self.begins.between(low * rows, high * rows)

    def only(self, step: int) -> "Located":
        """One of the steps."""
        here = slice(step, step + 1)
        return Located(
            self.samples[here],
            self.spans_of(step, step + 1),
            self.copies_of(step, step + 1),
            self.sources[here],
            self.starts[here],
            self.begins_of(step, step + 1),
        )
