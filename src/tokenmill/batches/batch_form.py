"""How batches look and are made ready; nothing here changes which tokens come."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tokenmill.base.signatures import check_fields
from tokenmill.base.suggest import check_at_least_one


@dataclass(frozen=True)
class BatchForm:
    """Settings of a loader that most users leave alone: `BatchLoader(..., form=BatchForm(...))`."""

    dtype: npt.DTypeLike = "int64"
    """Integer type of the tokens of a batch."""
    max_documents: int | None = None
    """Most documents in a row, which gives `cu_seqlens` a fixed length; None: one in 8 tokens."""
    check_ids: bool = True
    """Refuse an id below 0, or beyond a vocabulary that is known."""
    vocab_size: int | None = None
    """Ids that the model knows: one beyond them is refused, whatever the data says."""
    prefetch: int = 2
    """Batches that a thread makes ahead; 0: no thread."""
    stall_seconds: float = 30.0
    """A wait for a batch that is longer is logged, with what is waited for; needs the thread."""
    halves: bool = False
    """Gather inputs and targets as two arrays without gaps, as torch wants them. Only of windows
    without documents and augmentation; other batches are one array, of which both are views."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.prefetch < 0:
            raise ValueError(f"prefetch is {self.prefetch}; it must be 0 or more")
        if not self.stall_seconds > 0:
            raise ValueError(f"stall_seconds is {self.stall_seconds}; it must be more than 0")
        if self.max_documents is not None:
            check_at_least_one(max_documents=self.max_documents)
        try:
            is_whole = np.dtype(self.dtype).kind in "iu"
        except TypeError:
            is_whole = False
        if not is_whole:
            raise ValueError(
                f"dtype is {self.dtype}; token ids are whole numbers, for example int64"
            )
