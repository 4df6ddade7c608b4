"""Columns of tokens in batches: which of them a run has, and what they say about targets.

Data without a column that another source of the mixture has is refused by name, but for two: its
tokens are all targets (`loss`), and all count once (`weights`).
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.batches.batch import RowGroup
from tokenmill.dataset import TokenDataset
from tokenmill.errors import MismatchError
from tokenmill.reading.columns import LOSS, WEIGHTS, Column, DefaultColumns
from tokenmill.reading.span_reader import SpanReader


class RunColumns:
    """Makes the rows of the columns of some datasets."""

    def __init__(self, names: Sequence[str], datasets: Sequence[TokenDataset]) -> None:
        self._columns: dict[str, Column] = {}
        for source, data in zip(names, datasets, strict=True):
            for column in (Column(*pair) for pair in data.columns.items()):
                known = self._columns.setdefault(column.name, column)
                if column.cell != known.cell:
                    raise MismatchError(
                        f"column {column.name!r} has {column.bits} bits per token in {source} "
                        f"({data.path}), and {known.bits} in another source",
                        hint="write it again with as many bits, or leave it out: columns=[]",
                    )
        self._defaults = [self._missing(*pair) for pair in zip(names, datasets, strict=True)]

    def _missing(self, source: str, data: TokenDataset) -> dict[str, int]:
        """Return the value of each column that a source lacks."""
        defaults = {}
        for name in self._columns.keys() - data.columns:
            default = self._columns[name].default
            if default is None:
                raise MismatchError(
                    f"{source} ({data.path}) has no column {name!r}, which another source has",
                    hint="leave it out where the others are opened: tokenmill.open(..., "
                    f"columns={sorted(self._columns.keys() - {name})})",
                )
            defaults[name] = default
        return defaults

    def readers(self, readers: Sequence[SpanReader]) -> list[SpanReader]:
        """Return the readers of the sources, each with a value for what its data lacks."""
        pairs = zip(readers, self._defaults, strict=True)
        return [DefaultColumns(reader, lacks) if lacks else reader for reader, lacks in pairs]

    def empty(self, shape: tuple[int, int], *, padded: bool) -> dict[str, np.ndarray]:
        """Return rows for the readers to fill; in padding the values are 0."""
        make = np.zeros if padded else np.empty
        return {
            name: make((*shape, *column.shape), column.dtype)
            for name, column in self._columns.items()
        }

    def mask_by_loss(self, group: RowGroup) -> None:
        """Ban the tokens that are no targets by the column `loss`."""
        if LOSS not in self._columns or group.columns is None:
            return
        without_loss: np.ndarray = np.equal(group.columns[LOSS], 0)
        if group.columns[LOSS].dtype != bool:  # a byte of another project's file may be any
            group.columns[LOSS] = ~without_loss
        group.banned = without_loss if group.banned is None else group.banned | without_loss

    def refuse_moved(self) -> None:
        """Refuse columns that do not follow tokens which an augmentation moves or replaces."""
        if others := sorted(self._columns.keys() - {LOSS}):
            raise ValueError(
                f"augment changes tokens, and the columns {', '.join(others)} cannot follow\n\n"
                "hint: leave augment out, or these columns: tokenmill.open(..., columns=[...])"
            )


def weights_of(columns: dict[str, np.ndarray] | None) -> np.ndarray | None:
    """Return the weight of each target, float32; None where data has no weights."""
    stored = None if columns is None else columns.get(WEIGHTS)
    if stored is None:
        return None
    return Column(WEIGHTS, 8 * stored.itemsize).meaning(stored[:, 1:])
