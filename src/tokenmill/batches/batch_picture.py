"""A batch as a picture for notebooks: rows as strips, coloured by document or by source."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tokenmill.base.notebook import strips
from tokenmill.batches.batch import Batch

MOST_ROWS = 32


def picture(batch: Batch) -> str:
    """Return the rows of a batch as HTML, at most `MOST_ROWS` of them."""
    count, length = batch.inputs.shape
    title = f"Step {batch.step:,}: {count:,} rows of {length:,} tokens"
    return strips(title, [list(_parts(batch, row)) for row in range(min(count, MOST_ROWS))])


def _parts(batch: Batch, row: int) -> Iterator[tuple[int, int, str]]:
    """Yield (length, shade, words) for each document of a row, or for the whole row."""
    source = int(batch.sources[row])
    length = batch.inputs.shape[1]
    documents = np.full(length, source) if batch.segments is None else batch.segments[row, :length]
    cuts = [0, *(np.flatnonzero(np.diff(documents)) + 1).tolist(), length]
    for begin, end in pairwise(cuts):
        shade = int(documents[begin])
        name = "padding" if shade < 0 else f"source {source}"
        yield end - begin, shade, f"row {row}, {name}: {end - begin:,} tokens"
