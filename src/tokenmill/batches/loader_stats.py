"""Numbers about what a loader has served, and what a pass leaves out."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmill.order.order import Order
from tokenmill.order.step_share import StepShare

log = logging.getLogger("tokenmill")


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
