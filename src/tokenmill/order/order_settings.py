"""From the settings of a run to its order: the one place where a kind of order is chosen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.order.order import SourceOrder
from tokenmill.order.permutation import round_keys
from tokenmill.order.window_order import (
    Arrangement,
    RandomOrder,
    Sequential,
    Shuffle,
    WindowOrder,
    Windows,
)

if TYPE_CHECKING:
    from tokenmill.order.document_pieces import DocumentsByLength

ORDER_VERSION = 1  # part of every fingerprint; a new value means that a seed names another order
ROWS = ("windows", "packed", "documents")
LONG = ("split", "cut", "drop")
"""What becomes of documents that are longer than a row."""
ORDERS = ("blocks", "random", "sequential", "shuffle")
_KEYS_OF_SOURCE = 6


class Axis(Protocol):
    """The facts about one source that an order depends on; a `TokenDataset` has them."""

    num_tokens: int
    shard_starts: np.ndarray

    def documents_by_length(self) -> "DocumentsByLength":
        """All documents, sorted by length."""

    def document_edges(self, start: int, stop: int) -> np.ndarray:
        """Where the documents that hold tokens start .. stop-1 begin and end."""


@dataclass(frozen=True)
class OrderSettings:
    """What rows are and when they come, apart from the data; as the arguments of BatchLoader."""

    block_size: int
    seed: int = 0
    order: str | Arrangement = "shuffle"
    phase: bool = False
    rows: str = "windows"
    begin_token: int | None = None
    long: str = "split"

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more, and below 2^63")
        one_of("rows", self.rows, ROWS)
        one_of("long", self.long, LONG)
        if self.long != "split" and not self.of_documents:
            raise ValueError(
                f'long="{self.long}" is for rows made of documents, and rows are "windows"; use '
                'rows="packed" or rows="documents"'
            )
        if isinstance(self.order, str) and self.order not in ORDERS:
            raise ValueError(f"unknown order {self.order!r}; known are: {', '.join(ORDERS)}")
        if not self.of_documents:
            if self.begin_token is not None:
                raise ValueError(
                    f'begin_token is {self.begin_token}, but rows are "windows", which begin '
                    'anywhere in a document; use rows="packed" or rows="documents"'
                )
            return
        if self.order not in ("sequential", "shuffle"):
            name = self.order if isinstance(self.order, str) else "blocks"
            raise ValueError(
                f'order="{name}" is for windows: rows="{self.rows}" are made of documents from all '
                'over the data; use order="shuffle" or order="sequential"'
            )
        if self.phase:
            raise ValueError(f'phase=True has no meaning with rows="{self.rows}": no window is cut')
        if self.begin_token is not None and self.block_size < 2:
            raise ValueError(
                f"block_size is {self.block_size}; with a begin token a row needs at least 2 "
                "inputs: the begin token and one token of the document"
            )

    @property
    def of_documents(self) -> bool:
        """True if rows are made of whole documents, then padding."""
        return self.rows != "windows"

    def source_order(self, axis: Axis, seed: int) -> SourceOrder:
        """The order of one source."""
        plain: Arrangement = Sequential() if self.order == "sequential" else Shuffle()
        if self.of_documents:
            from tokenmill.order.row_order import RowOrder

            return RowOrder(
                axis.documents_by_length(),
                axis.document_edges,
                self.rows,
                plain,
                self.block_size,
                seed,
                self.begin_token is not None,
                self.long,
            )
        windows = Windows(axis.num_tokens, self.block_size, seed, self.phase)
        if self.order == "random":
            return RandomOrder(windows)
        if self.order == "blocks":
            from tokenmill.order.blocks import ShardBlocks

            return WindowOrder(windows, ShardBlocks.of(np.diff(axis.shard_starts), windows))
        return WindowOrder(windows, plain if isinstance(self.order, str) else self.order)

    def seed_of(self, source: int) -> int:
        """The seed of a source of a mixture: equal lengths give different orders."""
        return int(round_keys(self.seed, 0, _KEYS_OF_SOURCE, source + 1)[0] >> np.uint64(1))

    def to_json(self, name: str) -> dict[str, Any]:
        """For states, with the name that the source's order has. Of documents only where used."""
        of_documents: dict[str, Any] = {"rows": self.rows, "begin_token": self.begin_token}
        if self.long != "split":
            of_documents["long"] = self.long
        return {
            **(of_documents if self.of_documents else {}),
            "order_version": ORDER_VERSION,
            "order": name,
            "seed": self.seed,
            "block_size": self.block_size,
            "phase": self.phase,
        }
