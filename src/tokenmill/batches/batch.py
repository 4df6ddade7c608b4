"""One batch: a (batch_size, block_size + 1) array, its two views, and the names of its samples."""

from dataclasses import dataclass

import numpy as np


@dataclass(slots=True, eq=False)
class Batch:
    """What one rank trains on in one step. Every batch has memory of its own."""

    tokens: np.ndarray
    """(batch_size, block_size + 1): row i holds the window of sample `samples[i]`."""
    step: int
    """The step this batch is for; see order/ranks.py."""
    samples: np.ndarray
    """The global sample number of each row."""
    starts: np.ndarray
    """The first token of each row, on the axis of its source."""
    sources: np.ndarray
    """The source of each row, as its place in the mixture (0 without one)."""
    document_ids: np.ndarray | None = None
    """(batch_size, block_size) int32: which document of the row each input belongs to, from 0."""
    positions: np.ndarray | None = None
    """(batch_size, block_size) int32: place of each input in its document of the row."""
    loss_mask: np.ndarray | None = None
    """(batch_size, block_size) bool: False where the target begins another document."""
    cu_seqlens: np.ndarray | None = None
    """int32: where documents begin in the flattened inputs, then their number, repeated."""
    max_seqlen: int | None = None
    """Length of the longest document of the batch."""

    def set_marks(
        self,
        document_ids: np.ndarray,
        positions: np.ndarray,
        loss_mask: np.ndarray,
        cu_seqlens: np.ndarray,
        max_seqlen: int,
    ) -> None:
        """Fill in the fields about documents."""
        self.document_ids, self.positions, self.loss_mask = document_ids, positions, loss_mask
        self.cu_seqlens, self.max_seqlen = cu_seqlens, max_seqlen

    @property
    def inputs(self) -> np.ndarray:
        """(batch_size, block_size): what the model reads."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> np.ndarray:
        """(batch_size, block_size): what it predicts, each one token later."""
        return self.tokens[:, 1:]
