"""The passes of a loader: a pass ends when a source has had its epochs, or never.

A single dataset has `epochs=n`, a mixture `epochs={"wiki": n}`: whichever of the named sources is
first ends the pass. Pass k ends when it has had (k + 1) * n epochs. An order that edits have ended
ends all passes. Also: numbers about what a loader has served, and what a pass leaves out.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenmill.base.suggest import check_at_least_one
from tokenmill.batches.run import Run, number_of
from tokenmill.order.order import Order
from tokenmill.order.step_share import StepShare

log = logging.getLogger("tokenmill")


class Passes:
    """Passes of some epochs through the order of a run."""

    def __init__(self, epochs: int | Mapping[str, int] | None, run: Run) -> None:
        self.order = run.order
        self.is_mixture = run.stages is not None
        self._stops: dict[int, int | None] = {}
        if isinstance(epochs, int):
            if self.is_mixture:
                raise ValueError(
                    f"epochs is {epochs}; a mixture has no epochs of its own, name one of its "
                    f"sources: epochs={{{run.names[0]!r}: {epochs}}}"
                )
            check_at_least_one(epochs=epochs)
            epochs = {run.names[0]: epochs}
        named = epochs or {}
        check_at_least_one(**{f"epochs of {name!r}": number for name, number in named.items()})
        self.limits = {number_of(name, run.names): number for name, number in named.items()}
        """The epochs of a pass, by the number of the source; empty for one endless pass."""
        if self.limits and self.stop_of(0) is None:
            names = ", ".join(map(repr, named))
            raise ValueError(f"epochs are given for {names}, of which no sample ever comes")

    def start_of(self, number: int) -> int:
        return 0 if number == 0 or not self.limits else self.stop_of(number - 1) or 0

    def stop_of(self, number: int) -> int | None:
        """The sample after the last one of a pass; None if it never ends."""
        if number not in self._stops:
            ends = [
                self.order.samples_in_epochs(source, (number + 1) * epochs)
                for source, epochs in self.limits.items()
            ]
            stops = [end for end in [*ends, self.order.num_samples] if end is not None]
            self._stops[number] = min(stops, default=None)
        return self._stops[number]

    def pass_of(self, samples: int, number: int) -> int:
        """The pass of a saved state: the one it says, unless that had other `epochs`."""
        if not self.limits:
            return number
        stop = self.stop_of(number)
        if self.start_of(number) <= samples and (stop is None or samples <= stop):
            return number
        had = self.order.epochs_before(samples)
        return max(had[source] // epochs for source, epochs in self.limits.items())

    def epochs_of(self, source: int, number: int, present: int) -> range:
        """The epochs of a source in a pass; of an endless one, all up to the present one."""
        if (epochs := self.limits.get(source)) is None:
            return range(present + 1)
        return range(number * epochs, (number + 1) * epochs)

    def length_of_first(self) -> int:
        """Samples of the first pass; of one endless dataset, those of an epoch."""
        length = self.stop_of(0)
        if length is None and not self.is_mixture:
            length = self.order.samples_in_epochs(0, 1)
        if length is None:
            raise ValueError("a mixture has no end; say how many windows: windows(100_000)")
        return length


def stats_of_sources(names: Sequence[str], order: Order, samples: int) -> dict[str, Any]:
    """Of each source the samples, tokens and epochs among the first `samples` samples."""
    sources = {}
    counts = order.counts_before(samples)
    ranges = order.served_ranges(samples)
    for name, count, served, source in zip(names, counts, ranges, order.sources, strict=True):
        num_served = sum(stop - first for first, stop in served)
        sources[name] = {
            "samples": num_served,
            "tokens": num_served * order.block_size,
            "epochs": source.epochs_until(count),
            **source.facts(),
        }
    return sources


def left_out(order: Order, first: int, stop: int, epochs: Any) -> dict[str, int]:
    """What a pass does not serve: the samples first .. stop-1, which fill no step.

    `tokens` counts targets. Of one dataset, `epochs` of it, those after the last whole window of
    each epoch are among them.
    """
    begins, ends = order.rows(np.arange(first, stop)).targets
    tokens = int((ends - begins).sum())
    if isinstance(epochs, int) and len(order.sources) == 1:
        tokens += order.sources[0].tail * epochs
    return {"samples": stop - first, "tokens": tokens}


def report_end(
    epochs: Any, num_steps: int, left: dict[str, int], share: StepShare, order: Order
) -> None:
    """Log what a pass left out: a warning, if it is samples."""
    after = ", and the tokens after the last whole window of each epoch"
    log.log(
        logging.WARNING if left["samples"] else logging.INFO,
        "%s ended at step %d; left out: %d tokens (%d samples that do not fill a step of %d%s)",
        "the order" if epochs is None else f"epochs={epochs}",
        num_steps,
        left["tokens"],
        left["samples"],
        share.samples_per_step,
        after if isinstance(epochs, int) and order.sources[0].tail else "",
    )
