"""The data of a loader: named datasets, the order of their samples, and how rows are made of them.

A OrderedData never changes. Edits make another one of it (apply_edits.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from tokenmill.base.suggest import one_of
from tokenmill.batches.batch_maker import BatchMaker
from tokenmill.batches.gather import check_dtype
from tokenmill.batches.mixture import Mixture, fingerprint_of
from tokenmill.batches.rows.document_rows import DocumentRows, check_begin_token
from tokenmill.batches.rows.window_rows import WindowRows
from tokenmill.dataset import TokenDataset
from tokenmill.order.mixture_order import MixtureStage
from tokenmill.order.row_order import RowOrder
from tokenmill.order.sample_order import SampleOrder, check_rows
from tokenmill.order.simple_orders import Arrangement
from tokenmill.order.source_order import SourceOrder
from tokenmill.order.step_share import StepShare

if TYPE_CHECKING:
    from tokenmill.augment.augmenter import Augmenter


class OrderKeywords(TypedDict, total=False):
    """Keywords of BatchLoader that say what a window is, what it may hold and when it comes."""

    seed: int
    order: str | Arrangement
    phase: bool
    rows: str
    begin_token: int | None
    augment: Sequence[Any] | None
    dtype: npt.DTypeLike
    check_ids: bool


class LoaderKeywords(OrderKeywords, total=False):
    """Keywords that the loaders of torch pass on to BatchLoader; a test compares the two."""

    documents: bool
    max_documents: int | None


@dataclass(frozen=True)
class RowSettings:
    """What a row is, apart from the data; as the arguments of BatchLoader."""

    block_size: int
    seed: int
    order: str | Arrangement
    phase: bool
    rows: str
    begin_token: int | None
    augment: Sequence[Any]
    documents: bool
    max_documents: int | None
    dtype: np.dtype[Any]
    check_ids: bool

    @property
    def shows_documents(self) -> bool:
        """True if batches say where documents are."""
        return self.documents or self.rows != "windows"

    def augmenter(self, datasets: Sequence[TokenDataset]) -> "Augmenter | None":
        """Return what changes rows of this data before they are served; None without `augment`."""
        if not self.augment:
            return None
        from tokenmill.augment.augmenter import make_augmenter  # only when used
        from tokenmill.augment.known_ids import IdRules

        rules = IdRules(self.dtype, self.check_ids)
        augmenter = make_augmenter(self.augment, datasets, self.seed, self.begin_token, rules)
        return replace(
            augmenter, max_documents=self.max_documents, hides_documents=not self.shows_documents
        )

    def needs_documents(self, augmenter: "Augmenter | None") -> bool:
        """True if rows must know where documents are, be it for the augmenter alone."""
        return self.shows_documents or (augmenter is not None and augmenter.needs_documents)

    def check(self, data: TokenDataset, *, marked: bool) -> None:
        """Refuse data of which such rows cannot be made."""
        check_dtype(data, self.dtype)
        if marked:
            data.document_ends(0, 0)  # refuses here if nothing says where documents end
        if self.begin_token is not None:
            check_begin_token(data, self.begin_token)


@dataclass(frozen=True)
class OrderedData:
    """Named datasets, and which of their tokens are which sample."""

    names: tuple[str, ...]
    datasets: tuple[TokenDataset, ...]
    order: SampleOrder
    settings: RowSettings

    @classmethod
    def of(cls, data: TokenDataset | Mixture, settings: RowSettings) -> "OrderedData":
        """That of a run without edits; refuses data and settings that do not fit together."""
        if isinstance(data, Mixture):
            return cls._made(data.names, data.datasets, data.stages, settings)
        return cls._made(("data",), (data,), None, settings)

    @classmethod
    def _made(
        cls,
        names: tuple[str, ...],
        datasets: tuple[TokenDataset, ...],
        stages: tuple[MixtureStage, ...] | None,
        settings: RowSettings,
    ) -> "OrderedData":
        augmenter = settings.augmenter(datasets)
        check_rows(
            settings.rows,
            order=settings.order,
            phase=settings.phase,
            begin_token=settings.begin_token,
            block_size=settings.block_size,
        )
        in_pieces = settings.rows != "windows"
        for data in datasets:
            settings.check(data, marked=settings.needs_documents(augmenter))
        order = SampleOrder(
            [each.num_tokens for each in datasets],
            block_size=settings.block_size,
            seed=settings.seed,
            order=settings.order,
            phase=settings.phase,
            stages=stages,
            rows=settings.rows,
            begin_token=settings.begin_token,
            documents=[each.documents_by_length() for each in datasets] if in_pieces else None,
            augment=None if augmenter is None else augmenter.to_json(),
            shards=[shard_sizes(each) for each in datasets],
        )
        return cls(names, datasets, order, settings)

    def with_datasets(self, datasets: Sequence[TokenDataset]) -> "OrderedData":
        """The same with other data."""
        return self._made(self.names, tuple(datasets), self.order.stages, self.settings)

    @property
    def fingerprint(self) -> str:
        """A hash of the data."""
        if self.order.stages is None:
            return self.datasets[0].fingerprint
        return fingerprint_of(self.names, self.datasets)

    def to_json(self) -> dict[str, Any]:
        """What a state says of data and order, by fingerprint and in words."""
        return {
            "order_fingerprint": self.order.fingerprint(),
            **self.order.to_json(),
            "data_fingerprint": self.fingerprint,
            "sources": list(self.names),
            "num_tokens": [data.num_tokens for data in self.datasets],
        }

    def maker(self, share: StepShare) -> BatchMaker:
        """What makes the batches of a rank."""
        settings, order = self.settings, self.order
        augmenter = settings.augmenter(self.datasets)
        marked = settings.needs_documents(augmenter)
        dtype, options = settings.dtype, (settings.max_documents, settings.check_ids)
        return BatchMaker(
            DocumentRows(self.datasets, order, dtype, *options)
            if settings.rows != "windows"
            else WindowRows(self.datasets, order, dtype, marked, *options),
            order=order,
            share=share,
            dtype=dtype,
            augment=augmenter,
        )

    def source_order(self, data: TokenDataset, number: int) -> SourceOrder | RowOrder:
        """The order of this data as source `number`; refuses data that does not fit the others."""
        is_alone = self.order.stages is None and number == 0
        seed = self.order.seed if is_alone else self.order.seed_of(number)
        settings, order = self.settings, self.order
        augmenter = settings.augmenter([*self.datasets, data])
        settings.check(data, marked=settings.needs_documents(augmenter))
        before = settings.augmenter(self.datasets)
        if augmenter and before and augmenter.to_json() != before.to_json():
            raise ValueError(f"{data.path} has other special ids than the sources so far")
        if settings.rows != "windows":
            return order.rows_of(data.documents_by_length(), seed)
        return order.windows_of(data.num_tokens, shard_sizes(data), seed)

    def number_of(self, source: str | None) -> int:
        """The number of a source by its name, which may be left out where there is only one."""
        if source is None and len(self.names) == 1:
            return 0
        one_of("source", source, self.names)
        return self.names.index(str(source))


def shard_sizes(data: TokenDataset) -> list[int]:
    """Tokens of each shard."""
    sizes: list[int] = np.diff(data.shard_starts).tolist()
    return sizes
