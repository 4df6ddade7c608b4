"""Columns of tokens in the batches of a run: their rows, and what they say about targets.

Data without a column that another source of its mixture has is refused by name, but for two: all
its tokens are targets (`loss`), and all count once (`weights`).
"""

import numpy as np

from tokenmill.batches.batch import RowGroup
from tokenmill.batches.run import Run
from tokenmill.dataset import TokenDataset
from tokenmill.errors import MismatchError
from tokenmill.reading.columns import LOSS, Column


class RunColumns:
    """Makes the rows of all columns of some named datasets."""

    def __init__(self, run: Run) -> None:
        columns = [Column(*pair) for data in run.datasets for pair in data.columns.items()]
        self._columns = {column.name: column for column in sorted(columns)}  # of most bits
        self._defaults: list[tuple[int, str, int]] = []  # source, column, value
        for source, data in enumerate(run.datasets):
            for column in self._columns.values():
                self._check(column, source, data, run.names[source])
        self._is_augmented = run.augmenter is not None
        if self._is_augmented and (others := sorted(self._columns.keys() - {LOSS})):
            raise ValueError(
                f"augment moves or replaces tokens, and the columns {', '.join(others)} cannot "
                "follow\n\nhint: leave augment out, or these columns: open(..., columns=[...])"
            )

    def _check(self, column: Column, source: int, data: TokenDataset, name: str) -> None:
        bits = data.columns.get(column.name)
        if bits is None and column.default is not None:
            self._defaults.append((source, column.name, column.default))
        elif bits != column.bits and (bits is None or column.name != LOSS):
            raise MismatchError(
                f"{name} ({data.path}) has {f'{bits} bits' if bits else 'no values'} per token in "
                f"the column {column.name!r}, and another source has {column.bits} bits",
                hint="leave the column out where the sources are opened: open(..., columns=[...])",
            )

    def cells(self, shape: tuple[int, ...], *, padded: bool) -> dict[str, np.ndarray]:
        """Return rows for the readers to fill; padding has 0, or the value of a missing column."""
        make = np.zeros if padded else np.empty
        return {c.name: make((*shape, *c.shape), c.dtype) for c in self._columns.values()}

    def finish(self, group: RowGroup, sources: np.ndarray) -> None:
        """Add what data lacks; (rows,) sources. Where rows are augmented, `loss` becomes bans."""
        columns = group.columns
        assert columns is not None
        for source, name, value in self._defaults:
            columns[name][sources == source] = value
        if LOSS in columns:
            columns[LOSS] = columns[LOSS].astype(bool, copy=False)
        if self._is_augmented:  # which moves bans with the tokens, and knows of no columns
            banned = ~columns[LOSS]
            group.banned = banned if group.banned is None else group.banned | banned
            group.columns = None
