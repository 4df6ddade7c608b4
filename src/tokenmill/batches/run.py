"""What a loader serves from: named datasets, the order of their samples, and how rows are made.

A Run never changes. Edits make another one of it (edits/edited_run.py).
"""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.batches.batch import Located
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.id_check import check_dtype
from tokenmill.dataset import TokenDataset
from tokenmill.order.order import Order, SourceOrder
from tokenmill.order.order_settings import OrderSettings
from tokenmill.order.window_order import Arrangement

if TYPE_CHECKING:
    from tokenmill.augment.augmenter import Augmenter
    from tokenmill.order.mixture_order import MixtureStage

FindBanned = Callable[[Located, int, int, int], np.ndarray | None]
"""(located, first step, stop, length of a row) -> `RowGroup.banned`."""


class LoaderKeywords(TypedDict, total=False):
    """Keywords that the loaders of torch pass on to BatchLoader; a test compares the two."""

    seed: int
    order: str | Arrangement
    phase: bool
    rows: str
    begin_token: int | None
    long: str
    augment: Sequence[Any] | None
    documents: bool


@dataclass(frozen=True)
class RunSettings:
    """What rows are, when they come and what they look like, apart from the data."""

    order: OrderSettings
    augment: Sequence[Any]
    documents: bool
    form: BatchForm

    @property
    def shows_documents(self) -> bool:
        return self.documents or self.order.of_documents

    def augmenter(self, datasets: Sequence[TokenDataset]) -> "Augmenter | None":
        """Return what changes rows of this data before they are served; None without `augment`."""
        if not self.augment:
            return None
        from tokenmill.augment.augmenter import Augmenter  # only when used

        return Augmenter.of(self, datasets)

    def needs_documents(self, augmenter: "Augmenter | None") -> bool:
        """True if rows must know where documents are, be it for the augmenter alone."""
        return self.shows_documents or (augmenter is not None and augmenter.needs_documents)

    def check(self, datasets: Sequence[TokenDataset]) -> "Augmenter | None":
        """Refuse data of which such rows cannot be made; return its augmenter."""
        augmenter = self.augmenter(datasets)
        for data in datasets:
            check_dtype(data, self.form.dtype)
            if self.needs_documents(augmenter):
                data.document_ends(0, 0)  # refuses here if nothing says where documents end
            if self.order.begin_token is not None:
                from tokenmill.batches.padding import check_begin_token

                check_begin_token(data, self.order.begin_token, self.form.vocab_size)
        return augmenter


@dataclass(frozen=True)
class Run:
    """Named datasets, and which of their tokens are which sample."""

    names: tuple[str, ...]
    datasets: tuple[TokenDataset, ...]
    stages: "tuple[MixtureStage, ...] | None"
    """The weights of a mixture; None for one dataset."""
    settings: RunSettings
    order: Order
    bans: FindBanned | None = None
    """Finds the tokens that edits have banned."""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        datasets: tuple[TokenDataset, ...],
        stages: "tuple[MixtureStage, ...] | None",
        settings: RunSettings,
    ) -> "Run":
        """The run without edits; refuses data and settings that do not fit together."""
        settings.check(datasets)
        rules = settings.order
        if stages is None:
            alone = rules.source_order(datasets[0], rules.seed)
            return cls(names, datasets, stages, settings, alone)
        from tokenmill.order.mixture_order import MixtureOrder, deal_stages

        sources = [rules.source_order(d, rules.seed_of(i)) for i, d in enumerate(datasets)]
        order = MixtureOrder(sources, deal_stages(stages, rules.seed))
        return cls(names, datasets, stages, settings, order)

    @property
    def fingerprint(self) -> str:
        if self.stages is None:
            return self.datasets[0].fingerprint
        return fingerprint_of(self.names, self.datasets)

    @functools.cached_property
    def order_fingerprint(self) -> str:
        """A short hash of everything that the order depends on besides the data."""
        text = json.dumps(self._order_json, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """What a state says of data and order, by fingerprint and in words."""
        return {
            "order_fingerprint": self.order_fingerprint,
            **self._order_json,
            "data_fingerprint": self.fingerprint,
            "sources": list(self.names),
            "num_tokens": [data.num_tokens for data in self.datasets],
        }

    @functools.cached_property
    def _order_json(self) -> dict[str, Any]:
        """Settings that most runs do not have are left out of theirs."""
        named = self.settings.order.to_json(self.order.sources[0].name)
        if self.augmenter is not None:
            named["augment"] = self.augmenter.to_json()
        if self.settings.order.of_documents:
            named["documents"] = [data.documents_by_length().fingerprint for data in self.datasets]
        stages = self.stages
        named["stages"] = None if stages is None else [[s.start, *s.parts] for s in stages]
        return named

    @functools.cached_property
    def augmenter(self) -> "Augmenter | None":
        return self.settings.augmenter(self.datasets)

    def source_order(self, data: TokenDataset, number: int) -> SourceOrder:
        """The order of this data as source `number`; refuses data that does not fit the others."""
        both = self.settings.check([*self.datasets, data])
        if both and self.augmenter and both.to_json() != self.augmenter.to_json():
            raise ValueError(f"{data.path} has other special ids than the sources so far")
        rules = self.settings.order
        is_alone = self.stages is None and number == 0
        return rules.source_order(data, rules.seed if is_alone else rules.seed_of(number))


def fingerprint_of(names: Sequence[str], datasets: Sequence[TokenDataset]) -> str:
    """A hash of the names of some sources and of their data."""
    parts = [f"{name}={data.fingerprint}" for name, data in zip(names, datasets, strict=True)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def number_of(source: str | None, names: Sequence[str]) -> int:
    """The number of a source by its name, which may be left out where there is only one."""
    if source is None and len(names) == 1:
        return 0
    one_of("source", source, names)
    return names.index(str(source))
