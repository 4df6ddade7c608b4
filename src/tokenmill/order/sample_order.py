"""Sample number -> source and tokens, for one dataset or a mixture: what a loader asks for.

The tokens of a sample are a window, named by its first token, or pieces of documents (`rows`).
"""

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.edits.grown_source import GrownSource
from tokenmill.edits.skips import Skips
from tokenmill.edits.source_bans import SourceBans
from tokenmill.edits.token_ranges import Parts, row_by_row
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
        self._arrangement = order
        self._windows: list[SourceOrder | GrownSource] = []
        self._rows: list[RowOrder | GrownSource] = []
        seeds = [seed] if stages is None else [self.seed_of(i) for i in range(len(num_tokens))]
        for i, (n, source_seed) in enumerate(zip(num_tokens, seeds, strict=True)):
            if documents is None:
                sizes = shards[i] if shards else [n]
                self._windows.append(self.windows_of(n, sizes, source_seed))
            else:
                self._rows.append(self.rows_of(documents[i], source_seed))
        self._mixture = None if stages is None else MixtureOrder(stages, seed=seed)
        self.skips = Skips()
        self.bans: Mapping[int, SourceBans] = {}
        """The bans of each source that has some."""
        self.end: int | None = None
        """The place where the order ends, if it does."""

    def seed_of(self, source: int) -> int:
        """The seed of a source of a mixture; one each: equal lengths give different orders."""
        return int(round_keys(self.seed, 0, _KEYS_OF_SOURCE, source + 1)[0] >> np.uint64(1))

    def windows_of(self, num_tokens: int, shards: Sequence[int], seed: int) -> SourceOrder:
        """The order of the windows of one source."""
        windows = Windows(num_tokens, self.block_size, seed, self.phase)
        return SourceOrder(windows, arrangement_of(self._arrangement, windows, shards))

    def rows_of(self, documents: DocumentsByLength, seed: int) -> RowOrder:
        """The order of the rows of documents of one source."""
        arrangement = arrangement_of(self._arrangement)
        assert arrangement is not None  # `check_rows` has refused `random`
        begin = self.begin_token is not None
        return RowOrder(documents, self.rows, arrangement, self.block_size, seed, begin)

    def edited(
        self,
        sources: Sequence[Any],
        stages: Sequence[MixtureStage] | None,
        skips: Skips,
        end: int | None,
        bans: Mapping[int, SourceBans],
    ) -> "SampleOrder":
        """This order after edits; `to_json` and `fingerprint` stay those of the order before."""
        edited = copy.copy(self)
        edited._rows, edited._windows = (list(sources), []) if self._rows else ([], list(sources))
        edited._mixture = None if stages is None else MixtureOrder(stages, seed=self.seed)
        edited.skips = skips
        edited.end = end
        edited.bans = bans
        return edited

    def with_former_blocks(self) -> "SampleOrder":
        """This order with the sizes that `blocks` had before it followed the shards."""
        former = copy.copy(self)
        plain = [each for each in self._windows if isinstance(each, SourceOrder)]
        former._windows = [replace(each, arrangement=FORMER_BLOCKS) for each in plain]
        former._arrangement = FORMER_BLOCKS
        return former

    def with_stages(self, stages: Sequence[MixtureStage]) -> "SampleOrder":
        """This order of a mixture with other stages."""
        other = copy.copy(self)
        other.stages, other._mixture = tuple(stages), MixtureOrder(stages, seed=self.seed)
        return other

    @property
    def sources(self) -> Sequence[SourceOrder | RowOrder | GrownSource]:
        return self._rows or self._windows

    @property
    def rows_of_sources(self) -> Sequence[RowOrder | GrownSource]:
        """The sources of an order of packed or single documents; of windows, none."""
        return self._rows

    def source_of(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source of each sample, and which sample of that source it is."""
        places = self.skips.places(samples)
        if self._mixture is None:
            return np.zeros(samples.shape, np.int64), places
        return self._mixture.locate(places)

    def locate(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source and the first token of each window, both in the shape of `samples`."""
        source, index = self.source_of(samples)
        return source, self.starts_of(source, index)

    def starts_of(self, source: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The first token of each window, from what `source_of` says."""
        if self._mixture is None:
            return self._windows[0].starts(index)
        starts = np.empty(index.shape, np.int64)
        for s in np.unique(source).tolist():
            starts[source == s] = self._windows[s].starts(index[source == s])
        return starts

    def locate_pieces(self, samples: np.ndarray) -> tuple[np.ndarray, RowPieces]:
        """The source and the pieces of each row, for a 1-D array of samples."""
        source, index = self.source_of(samples)
        return source, self.pieces_of(source, index)

    def pieces_of(self, source: np.ndarray, index: np.ndarray) -> RowPieces:
        """The pieces of each row, from what `source_of` says of a 1-D array."""
        if self._mixture is None:
            return self._rows[0].locate(index)
        places = [np.flatnonzero(source == s) for s in range(len(self._rows))]
        parts = [rows.locate(index[where]) for rows, where in zip(self._rows, places, strict=True)]
        return join_rows(parts, places)

    def banned_parts(
        self,
        source: np.ndarray,
        index: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray | int,
    ) -> Parts | None:
        """The banned tokens among start .. start+length-1 in rows of these samples, row by row.

        All are 1-D. None if no source has a ban.
        """
        if not self.bans:
            return None
        found = []
        lengths = np.broadcast_to(lengths, starts.shape)
        for s, bans in self.bans.items():
            here = np.flatnonzero(source == s)
            most = self.block_size + 1
            which, lows, highs = bans.parts(index[here], starts[here], lengths[here], most)
            found.append((here[which], lows, highs))
        return row_by_row(found)

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        """The epoch of its own source that each sample belongs to."""
        source, index = self.source_of(samples)
        epochs = np.empty(samples.shape, np.int64)
        for s in np.unique(source).tolist():
            epochs[source == s] = self.sources[s].epoch_of(index[source == s])
        return epochs

    def samples_targeting(
        self, source: int, tokens: tuple[int, int], where: tuple[Any, ...], epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """(epoch of the source, sample) of all samples that train on a token of start .. stop-1.

        `where` is (start, stop) on the axis for windows; for other rows it is what
        `RowOrder.samples_targeting` takes.
        """
        found = []
        targeting: Callable[..., np.ndarray] = self.sources[source].samples_targeting
        for epoch in epochs:
            index = targeting(*where, epoch)
            if source in self.bans:
                index = index[self.bans[source].leave(self.sources[source], index, tokens)]
            samples = self.samples_of(source, index)
            found += [(epoch, sample) for sample in samples.tolist() if sample >= 0]
        return found

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The sample that is the index-th of a source; -1 if none is, or if it is passed over."""
        places = index if self._mixture is None else self._mixture.sample_of(source, index)
        if self.end is not None:
            places = np.where(places < self.end, places, -1)
        return np.where(places < 0, -1, self.skips.samples_at(places))

    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source are before this one in the order, served or not."""
        return self._counts_at(self.skips.place(sample))

    def served_before(self, sample: int) -> list[int]:
        """How many samples of each source were served before this one: without those skipped."""
        return [sum(stop - first for first, stop in each) for each in self.served_ranges(sample)]

    def served_ranges(self, sample: int) -> list[list[tuple[int, int]]]:
        """Which samples of each source were served before this one: ranges of their numbers."""
        skips = zip(self.skips.samples, self.skips.ranges(), strict=True)
        passed = [place for at, range_ in skips if at <= sample for place in range_]
        counts = [self._counts_at(place) for place in [0, *passed, self.skips.place(sample)]]
        of_sources = zip(*counts, strict=True)
        return [list(zip(each[::2], each[1::2], strict=True)) for each in of_sources]

    def epochs_before(self, sample: int) -> list[int]:
        """The epoch of each source that the next of its samples belongs to."""
        counts = zip(self.sources, self.counts_before(sample), strict=True)
        return [int(source.epoch_of(np.array(count))) for source, count in counts]

    def _counts_at(self, place: int) -> list[int]:
        return [place] if self._mixture is None else self._mixture.counts_before(place)

    def samples_in_epochs(self, source: int, epochs: int) -> int | None:
        """How many samples there are until a source has had this many epochs; None: never."""
        last = np.array([self.sources[source].first_of_epoch(epochs) - 1])
        if last[0] < 0:
            return 0
        place = int((last if self._mixture is None else self._mixture.sample_of(source, last))[0])
        if place < 0 or (self.end is not None and place >= self.end):
            return None
        return int(self.skips.count_before(np.array([place + 1]))[0])

    def is_over(self, sample: int) -> bool:
        """Whether the order has ended before this sample."""
        return self.end is not None and self.skips.place(sample) > self.end

    @property
    def num_samples(self) -> int | None:
        """How many samples there are before the order ends; None: it is endless."""
        return None if self.end is None else int(self.skips.count_before(np.array([self.end]))[0])

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
