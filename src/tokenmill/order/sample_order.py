"""Sample number -> source and tokens, for one dataset or a mixture: what a loader asks for.

The tokens of a sample are a window, named by its first token, or pieces of documents (`rows`).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.order.blocks import Blocks
from tokenmill.order.document_pieces import DocumentsByLength
from tokenmill.order.mixture_order import MixtureOrder, MixtureStage
from tokenmill.order.permutation import round_keys
from tokenmill.order.row_order import ROWS, RowOrder, RowPieces, join_rows
from tokenmill.order.simple_orders import Arrangement
from tokenmill.order.source_order import ORDER_VERSION, SourceOrder, arrangement_of
from tokenmill.order.windows import Windows

_KEYS_OF_SOURCE = 6
FORMER_BLOCKS = Blocks(256, 512)
"""What the order `blocks` was before it followed the shards."""


class SampleOrder:
    """The order of a run: which tokens of which source are sample g, and back."""

    def __init__(
        self,
        num_tokens: Sequence[int],
        *,
        block_size: int,
        seed: int = 0,
        order: str | Arrangement = "shuffle",
        phase: bool = False,
        stages: Sequence[MixtureStage] | None = None,
        rows: str = "windows",
        begin_token: int | None = None,
        documents: Sequence[DocumentsByLength] | None = None,
        augment: list[dict[str, Any]] | None = None,
        shards: Sequence[Sequence[int]] | None = None,
    ) -> None:
        if not 0 <= seed < 1 << 63:
            raise ValueError(f"seed is {seed}; it must be 0 or more, and below 2^63")
        self.block_size, self.seed, self.phase = block_size, seed, phase
        self.rows, self.begin_token, self._documents = rows, begin_token, documents
        self._augment = augment
        self.stages = None if stages is None else tuple(stages)
        seeds = [seed]
        if stages is not None:  # one each, so that equal lengths do not give equal orders
            numbers = range(1, len(num_tokens) + 1)
            keys = [round_keys(seed, 0, _KEYS_OF_SOURCE, number)[0] for number in numbers]
            seeds = [int(key >> np.uint64(1)) for key in keys]
        self._windows: list[SourceOrder] = []
        self._rows: list[RowOrder] = []
        if documents is None:
            of_sources = shards or [[n] for n in num_tokens]
            for n, source_seed, sizes in zip(num_tokens, seeds, of_sources, strict=True):
                windows = Windows(n, block_size, source_seed, phase)
                arrangement = arrangement_of(order, windows, sizes)
                self._windows.append(SourceOrder(windows, arrangement))
        else:
            arrangement = arrangement_of(order)
            assert arrangement is not None  # `check_rows` has refused `random`
            begin = begin_token is not None
            self._rows = [
                RowOrder(each, rows, arrangement, block_size, source_seed, begin)
                for each, source_seed in zip(documents, seeds, strict=True)
            ]
        self._mixture = None if stages is None else MixtureOrder(stages, seed=seed)

    @contextmanager
    def as_saved(self, state: Mapping[str, Any]) -> Iterator[None]:
        """Take the order of a state that was saved when `blocks` had other sizes, or leave all."""
        before = self._windows
        if self.sources[0].name == "blocks" and state.get("order") == FORMER_BLOCKS.name:
            self._windows = [replace(each, arrangement=FORMER_BLOCKS) for each in before]
        try:
            yield
        except BaseException:
            self._windows = before
            raise

    @property
    def sources(self) -> Sequence[SourceOrder | RowOrder]:
        return self._rows or self._windows

    @property
    def rows_of_sources(self) -> Sequence[RowOrder]:
        """The sources of an order of packed or single documents; of windows, none."""
        return self._rows

    @property
    def samples_per_epoch(self) -> int | None:
        """K; None for a mixture, where every source has its own."""
        return self.sources[0].samples_per_epoch if self._mixture is None else None

    def locate(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source and the first token of each window, both in the shape of `samples`."""
        if self._mixture is None:
            return np.zeros(samples.shape, np.int64), self._windows[0].starts(samples)
        source, index = self._mixture.locate(samples)
        starts = np.empty(samples.shape, np.int64)
        for s in np.unique(source).tolist():
            starts[source == s] = self._windows[s].starts(index[source == s])
        return source, starts

    def locate_pieces(self, samples: np.ndarray) -> tuple[np.ndarray, RowPieces]:
        """The source of each sample of a 1-D array, and the pieces of documents in its row."""
        if self._mixture is None:
            return np.zeros(samples.shape, np.int64), self._rows[0].locate(samples)
        source, index = self._mixture.locate(samples)
        places = [np.flatnonzero(source == s) for s in range(len(self._rows))]
        parts = [rows.locate(index[where]) for rows, where in zip(self._rows, places, strict=True)]
        return source, join_rows(parts, places)

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        """The epoch of its own source that each sample belongs to."""
        per_epoch = np.array([source.samples_per_epoch for source in self.sources])
        source, index = (0, samples) if self._mixture is None else self._mixture.locate(samples)
        epochs: np.ndarray = index // per_epoch[source]
        return epochs

    def samples_targeting(
        self, source: int, where: tuple[Any, ...], epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """(epoch of the source, sample) of all samples with a target among some tokens.

        `where` is (start, stop) on the axis for windows; for other rows it is what
        `RowOrder.samples_targeting` takes.
        """
        found = []
        targeting: Callable[..., np.ndarray] = self.sources[source].samples_targeting
        for epoch in epochs:
            samples = targeting(*where, epoch)
            if self._mixture is not None:
                samples = self._mixture.sample_of(source, samples)
            found += [(epoch, sample) for sample in samples.tolist() if sample >= 0]
        return found

    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source come before this sample number."""
        return [sample] if self._mixture is None else self._mixture.counts_before(sample)

    def to_json(self) -> dict[str, Any]:
        """Everything the order depends on besides the data, as JSON.

        What is only in orders of documents, or with augmentation, is left out of the others:
        their fingerprint stays.
        """
        of_documents: dict[str, Any] = {}
        if self._documents is not None:
            of_documents = {
                "rows": self.rows,
                "begin_token": self.begin_token,
                "documents": [each.fingerprint for each in self._documents],
            }
        augmented = {} if self._augment is None else {"augment": self._augment}
        return {
            **augmented,
            **of_documents,
            "order_version": ORDER_VERSION,
            "order": self.sources[0].name,
            "seed": self.seed,
            "block_size": self.block_size,
            "phase": self.phase,
            "stages": None if self.stages is None else [[s.start, *s.parts] for s in self.stages],
        }

    def fingerprint(self) -> str:
        """A short hash of `to_json()`."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_rows(
    rows: str, *, order: str | Arrangement, phase: bool, begin_token: int | None, block_size: int
) -> None:
    """Refuse a kind of rows that does not exist, and settings that have no meaning with it."""
    one_of("rows", rows, ROWS)
    if rows == "windows":
        if begin_token is not None:
            raise ValueError(
                f'begin_token is {begin_token}, but rows are "windows", which begin anywhere in a '
                'document; use rows="packed" or rows="documents"'
            )
        return
    arrangement = arrangement_of(order)
    if arrangement is None or isinstance(arrangement, Blocks):
        name = order if isinstance(order, str) else "blocks"
        raise ValueError(
            f'order="{name}" is for windows: rows="{rows}" are made of documents from all over '
            'the data; use order="shuffle" or order="sequential"'
        )
    if phase:
        raise ValueError(f'phase=True has no meaning with rows="{rows}": no window is cut')
    if begin_token is not None and block_size < 2:
        raise ValueError(
            f"block_size is {block_size}; with a begin token a row needs at least 2 inputs: the "
            "begin token and one token of the document"
        )
