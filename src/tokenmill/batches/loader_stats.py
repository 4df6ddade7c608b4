"""What a loader has served, and what a pass leaves out."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmill.edits.grown_source import plain_order
from tokenmill.order.row_order import RowOrder
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.source_order import SourceOrder
from tokenmill.order.step_share import StepShare

log = logging.getLogger("tokenmill")


def stats_of_sources(names: Sequence[str], order: SampleOrder, samples: int) -> dict[str, Any]:
    """Of each source the samples, tokens and epochs among the first `samples` samples."""
    sources = {}
    served, had = order.served_before(samples), order.counts_before(samples)
    for name, count, place, each in zip(names, served, had, order.sources, strict=True):
        sources[name] = {
            "samples": count,
            "tokens": count * order.block_size,
            "epochs": each.epochs_until(place),
        }
        if isinstance(order_of_rows := plain_order(each), RowOrder):
            sources[name] |= stats_of_rows(order_of_rows)
    return sources


def stats_of_rows(order: RowOrder) -> dict[str, Any]:
    """What an epoch of packed rows, or of a document a row, is made of."""
    return {
        "rows_per_epoch": order.samples_per_epoch,
        "documents": int(order.documents.counts.sum()),
        "cut_documents": order.pieces.num_cut,
        "targets_per_epoch": order.num_targets,
        "padding_per_epoch": order.num_padding,
    }


def left_out(order: SampleOrder, first: int, stop: int, epochs: Any) -> dict[str, int]:
    """What a pass does not serve: the samples first .. stop-1, which fill no step.

    `tokens` counts targets. Of one dataset, `epochs` of it, those after the last whole window of
    each epoch are among them.
    """
    samples = stop - first
    if order.rows_of_sources:
        _, pieces = order.locate_pieces(np.arange(first, stop))
        return {"samples": samples, "tokens": int((pieces.lengths - 1).sum())}
    tokens, source = samples * order.block_size, order.sources[0]
    if isinstance(epochs, int) and len(order.sources) == 1 and isinstance(source, SourceOrder):
        tokens += source.windows.slack * epochs
    return {"samples": samples, "tokens": tokens}


def report_end(
    epochs: Any, num_steps: int, left: dict[str, int], share: StepShare, order: SampleOrder
) -> None:
    """Log what a pass left out: a warning, if it is samples."""
    after = ", and the tokens after the last whole window of each epoch"
    log.log(
        logging.WARNING if left["samples"] else logging.INFO,
        "%s ended at step %d; left out: %d tokens (%d samples that do not fill a step of %d%s)",
        "the order" if epochs is None else f"epochs={epochs}",
        *(num_steps, left["tokens"], left["samples"], share.samples_per_step),
        after if isinstance(epochs, int) and not order.rows_of_sources else "",
    )
