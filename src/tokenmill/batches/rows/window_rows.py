"""Rows that are windows of the axis: where they are, their tokens, and the documents in them."""

import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from tokenmill.batches.document_masks import DocumentMarks, mark_documents
from tokenmill.batches.frames_in_use import frame_runs_of, spread_of
from tokenmill.batches.gather import RowReader
from tokenmill.batches.rows.window_documents import RowBegins, WindowDocuments
from tokenmill.dataset import TokenDataset
from tokenmill.edits.banned_places import BannedPlaces, banned_in_windows
from tokenmill.errors import TokenmillError
from tokenmill.order.sample_order import SampleOrder


class WindowPlaces(NamedTuple):
    """Where the windows of some steps begin; each table is (steps, rows)."""

    sources: np.ndarray
    starts: np.ndarray
    shards: np.ndarray
    offsets: np.ndarray
    begins: RowBegins | None
    """What is known about documents in them before their tokens are."""
    banned: BannedPlaces | None

    def steps(self, low: int, high: int) -> "WindowPlaces":
        sources, starts, shards, offsets = (table[low:high] for table in self[:4])
        num_rows = starts.shape[1]
        begins = self.begins and self.begins.between(low * num_rows, high * num_rows)
        banned = self.banned and self.banned.steps(low, high)
        return WindowPlaces(sources, starts, shards, offsets, begins, banned)

    def row_pieces(self, step: int) -> None:
        """Windows are not made of pieces."""


class WindowRows:
    """Windows as rows, of one dataset or of several by turns."""

    pieces_per_row = 1.0

    def __init__(
        self,
        datasets: Sequence[TokenDataset],
        order: SampleOrder,
        dtype: np.dtype[Any],
        documents: bool,
        max_documents: int | None,
        check_ids: bool,
        *,
        in_frames: bool = True,
    ) -> None:
        self._datasets, self._order = datasets, order
        self._max_documents = max_documents
        length, stored = order.block_size + 1, {data.dtype for data in datasets}
        self._readers = [
            RowReader(
                data,
                length,
                dtype,
                check_ids,
                frame_runs_of(data, source) if in_frames else None,
            )
            for data, source in zip(datasets, order.sources, strict=True)
        ]
        self._documents = WindowDocuments(datasets, length) if documents else None
        options = (dtype, documents, max_documents, check_ids)
        self._make_another = functools.partial(WindowRows, datasets, order, *options)
        self._stored_dtype = stored.pop() if len(stored) == 1 else dtype

    def in_any_order(self) -> "WindowRows":
        """The same rows for one who asks for samples in an order of his own."""
        return self._make_another(in_frames=False)

    def locate(self, samples: np.ndarray) -> WindowPlaces:
        """Where the window of each sample begins, in a file; (steps, rows) of samples."""
        sources, index = self._order.source_of(samples)
        starts = self._order.starts_of(sources, index)
        shards, offsets = self._shards_of(sources, starts)
        begins = None
        if self._documents is not None:
            with suppress(TokenmillError):  # raised again at the step that needs what is wrong
                begins = self._documents.locate(sources, starts)
        banned = banned_in_windows(self._order, sources, index, starts)
        return WindowPlaces(sources, starts, shards, offsets, begins, banned)

    def expect(self, places: WindowPlaces) -> bool:
        """These will be taken soon; whether all are here (TokenAxis.expect)."""
        length = self._order.block_size + 1
        answers = [
            data.expect(places.starts[places.sources == number], length, spread_of(source))
            for number, (data, source) in enumerate(
                zip(self._datasets, self._order.sources, strict=True)
            )
        ]
        return all(answers)

    def take(self, places: WindowPlaces) -> tuple[np.ndarray, Sequence[DocumentMarks | None]]:
        """The tokens of each row of each batch and, if asked for, where documents are in them."""
        sources, starts, shards, offsets = (table.reshape(-1) for table in places[:4])
        stored = self._stored(sources, shards, offsets)
        batches = stored.reshape(*places.starts.shape, stored.shape[1])
        if self._documents is None:
            return batches, [None] * len(batches)
        flags, begins = self._documents.find(sources, starts, stored, places.begins)
        return batches, mark_documents(flags, begins, batches.shape, self._max_documents)

    def _shards_of(self, sources: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The shard, and the token within it, of each start."""
        if len(self._readers) == 1:
            return self._readers[0].find_shards(starts)
        shards, offsets = np.empty_like(starts), np.empty_like(starts)
        for s, reader in enumerate(self._readers):
            mine = sources == s
            shards[mine], offsets[mine] = reader.find_shards(starts[mine])
        return shards, offsets

    def _stored(self, sources: np.ndarray, shards: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The tokens of each row, as wide as the files have them."""
        if len(self._readers) == 1:
            return self._readers[0].take(shards, offsets)
        stored = np.empty((len(offsets), self._order.block_size + 1), self._stored_dtype)
        for s, reader in enumerate(self._readers):
            mine = np.flatnonzero(sources == s)
            stored[mine] = reader.take(shards[mine], offsets[mine])
        return stored
