"""One batch: a (batch_size, block_size + 1) array, its two views, and the names of its samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.order.spans import Spans

if TYPE_CHECKING:
    from tokenmill.batches.document_masks import DocumentMarks

IGNORED = -100  # the label that cross-entropy leaves out, in torch and in Hugging Face models


@dataclass(frozen=True, eq=False)
class Located:
    """Where the tokens of some steps are: what their batches are made from."""

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

    def copies_of(self, low: int, high: int) -> Spans:
        rows = self.copies.num_rows // len(self.samples)
        return self.copies.between(low * rows, high * rows)

    def only(self, step: int) -> "Located":
        here = slice(step, step + 1)
        rows = self.samples.shape[1]
        spans = self.spans.between(step * rows, (step + 1) * rows)
        return Located(self.samples[here], spans, spans, self.sources[here], self.starts[here])


@dataclass(slots=True, eq=False)
class RowGroup:
    """The rows of several batches that are read together, one batch after the other.

    Shapes: R rows in all, of T + 1 tokens each, T = block_size.
    """

    tokens: np.ndarray
    """(R, T + 1)."""
    samples: np.ndarray
    """(batches, rows of a batch): the sample number of each row."""
    filled: np.ndarray | None = None
    """(R,) int64: tokens of each row before its padding; None: there is none."""
    continues: np.ndarray | None = None
    """(R, T + 1) bool: True for each token that continues the document of the token before it,
    False if it begins one or is padding; the first of a row means nothing. None: not known."""
    banned: np.ndarray | None = None
    """(R, T + 1) bool: the tokens that must not become labels; None: there are none."""
    columns: dict[str, np.ndarray] | None = None
    """(R, T + 1) each: the columns of the tokens by name; None: there are none."""
    labels: np.ndarray | None = None
    """(R, T) int64: the labels, where an augmentation gives others than the tokens say."""

    def cut(self, of_rows: np.ndarray) -> np.ndarray:
        """An array of all rows as (batches, rows of a batch, ...)."""
        return of_rows.reshape(*self.samples.shape, *of_rows.shape[1:])


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """What one rank trains on in one step, in its own memory; unpacks as `inputs, targets`.

    Of rows with padding it unpacks as `inputs, labels`: nothing is to be learned from padding.
    Banned targets, and those without loss by a column of the data, are -100 in both.
    """

    rows: np.ndarray
    """`tokens`; or (2, batch_size, block_size), inputs and targets without gaps (`halves`)."""
    step: int
    """The step this batch is for; see order/step_share.py."""
    samples: np.ndarray
    """(batch_size,): the global sample number of each row."""
    starts: np.ndarray
    """(batch_size,): the first token of each row, on the axis of its source."""
    sources: np.ndarray
    """(batch_size,): the number of the source of each row in the mixture (0 without one)."""
    located: Located
    """The steps that were located together with this one."""
    number: int
    """Which of these steps is this one."""
    marks: "DocumentMarks | None" = None
    """Where documents are, with `documents=True` or rows of documents."""
    has_padding: bool = False
    """True if rows are made of documents, then padding."""
    augmented_labels: np.ndarray | None = None
    """The labels, where an augmentation gives others than the tokens say."""
    labels_are_inputs: bool = False
    """True if labels are the inputs' own tokens, not the next ones (`MaskTokens`)."""
    bans: np.ndarray | None = None
    """(batch_size, block_size + 1) bool: the tokens that edits have banned; None: none."""
    columns: dict[str, np.ndarray] | None = None
    """(batch_size, block_size + 1) each: values of all tokens by the name of their column; 0 in
    padding. None: the data has no columns."""

    def __repr__(self) -> str:
        inputs = self.inputs
        return (
            f"<Batch of step {self.step}: {len(inputs)} rows of {inputs.shape[1]:,} tokens, "
            f"{inputs.dtype.name}>"
        )

    def _repr_html_(self) -> str:
        from tokenmill.batches.batch_picture import picture

        return picture(self)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.inputs, self.labels if self.masks_targets else self.targets))

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Without the other steps that were located together with this one."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return None, {**fields, "located": self.located.only(self.number), "number": 0}

    @property
    def tokens(self) -> np.ndarray:
        """(batch_size, block_size + 1): row i holds the tokens of sample `samples[i]`."""
        if self.rows.ndim == 2:
            return self.rows
        inputs, targets = self.rows
        return np.concatenate([inputs, targets[:, -1:]], axis=1)

    @property
    def spans(self) -> Spans:
        """Where the tokens of the rows come from."""
        return self.located.only(self.number).spans

    @property
    def masks_targets(self) -> bool:
        """True if it unpacks as labels: rows have padding, or an augmentation chose the targets."""
        return self.has_padding or self.augmented_labels is not None

    @property
    def inputs(self) -> np.ndarray:
        """(batch_size, block_size): what the model reads."""
        return self.rows[:, :-1] if self.rows.ndim == 2 else self.rows[0]

    @property
    def targets(self) -> np.ndarray:
        """(batch_size, block_size): what it predicts, each one token later.

        Banned targets are -100, in an array of int64 where the dtype has no numbers below 0.
        """
        targets = self._next_tokens
        if (banned := self.banned) is not None:
            targets = targets.astype(np.int64 if targets.dtype.kind == "u" else targets.dtype)
            np.putmask(targets, banned[:, 1:], IGNORED)
        if self.augmented_labels is None:
            return targets
        counted = self.augmented_labels != IGNORED
        return np.where(counted, self.augmented_labels, targets).astype(targets.dtype, copy=False)

    @property
    def labels(self) -> np.ndarray:
        """(batch_size, block_size) int64: the targets, and -100 where there is no loss."""
        if self.augmented_labels is not None:
            return self.augmented_labels
        labels = self._next_tokens.astype(np.int64)
        if (mask := self.loss_mask) is not None:
            np.putmask(labels, ~mask, IGNORED)
        return labels

    @property
    def _next_tokens(self) -> np.ndarray:
        return self.rows[:, 1:] if self.rows.ndim == 2 else self.rows[1]

    @property
    def banned(self) -> np.ndarray | None:
        """(batch_size, block_size + 1) bool: the tokens that must not be trained on, by edits or by
        the column `loss`; None: there are none."""
        if self.columns is None or "loss" not in self.columns:
            return self.bans
        banned: np.ndarray = ~self.columns["loss"]
        return banned if self.bans is None else banned | self.bans

    @property
    def weights(self) -> np.ndarray | None:
        """(batch_size, block_size) float32: how much each target counts; None: all the same."""
        if self.columns is None or (stored := self.columns.get("weights")) is None:
            return None
        from tokenmill.reading.columns import Column

        return Column("weights", 8 * stored.itemsize).meaning(stored[:, 1:])

    @property
    def segments(self) -> np.ndarray | None:
        """(batch_size, block_size + 1) int32: which document of its row each token belongs to.

        Counted from 0; -1 is padding.
        """
        return None if self.marks is None else self.marks.segments

    @property
    def document_ids(self) -> np.ndarray | None:
        """(batch_size, block_size) int32: which document of its row an input belongs to, from 0."""
        return None if self.marks is None else self.marks.document_ids

    @property
    def positions(self) -> np.ndarray | None:
        """(batch_size, block_size) int32: place of each input in its document of the row."""
        return None if self.marks is None else self.marks.positions

    @property
    def loss_mask(self) -> np.ndarray | None:
        """(batch_size, block_size) bool: False where a target begins a document, is padding, or is
        banned."""
        if self.augmented_labels is not None:
            counted: np.ndarray = self.augmented_labels != IGNORED
            return counted
        mask = None if self.marks is None else self.marks.loss_mask
        if (banned := self.banned) is None:
            return mask
        allowed: np.ndarray = ~banned[:, 1:]
        return allowed if mask is None else mask & allowed

    @property
    def cu_seqlens(self) -> np.ndarray | None:
        """int32: where documents begin in the flattened inputs, then their number, repeated."""
        return None if self.marks is None else self.marks.cu_seqlens

    @property
    def max_seqlen(self) -> int | None:
        """Length of the longest document of the batch."""
        return None if self.marks is None else self.marks.max_seqlen
