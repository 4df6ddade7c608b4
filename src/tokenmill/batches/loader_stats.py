"""What a loader has served, and what a pass leaves out."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmill.order.row_order import RowOrder
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.step_share import StepShare

log = logging.getLogger("tokenmill")


def stats_of_sources(names: Sequence[str], order: SampleOrder, samples: int) -> dict[str, Any]:
    """Of each source the samples, tokens and epochs among the first `samples` samples."""
    sources = {}
    for name, count, each in zip(names, order.counts_before(samples), order.sources, strict=True):
        sources[name] = {
            "samples": count,
            "tokens": count * order.block_size,
            "epochs": count / each.samples_per_epoch,
        }
        if isinstance(each, RowOrder):
            sources[name] |= stats_of_rows(each)
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


def left_out(order: SampleOrder, first: int, stop: int, epochs: int) -> dict[str, int]:
    """What a pass of one source does not serve: the samples first .. stop-1, which fill no step.

    `tokens` counts targets; those after the last whole window of each epoch are among them.
    """
    samples = stop - first
    source = order.sources[0]
    if isinstance(source, RowOrder):
        pieces = source.locate(np.arange(first, stop))
        return {"samples": samples, "tokens": int((pieces.lengths - 1).sum())}
    return {
        "samples": samples,
        "tokens": samples * order.block_size + source.windows.slack * epochs,
    }


def report_end(
    epochs: int | None, num_steps: int, left: dict[str, int], share: StepShare, order: SampleOrder
) -> None:
    """Log what a pass left out: a warning, if it is samples."""
    after = ", and the tokens after the last whole window of each epoch"
    log.log(
        logging.WARNING if left["samples"] else logging.INFO,
        "epochs=%s ended at step %d; left out: %d tokens (%d samples that do not fill a "
        "step of %d%s)",
        *(epochs, num_steps, left["tokens"], left["samples"], share.samples_per_step),
        "" if order.rows_of_sources else after,
    )
