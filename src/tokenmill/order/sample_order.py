"""Sample number -> source and first token, for one dataset or a mixture: what a loader asks for."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tokenmill.order.mixture_order import MixtureOrder, MixtureStage
from tokenmill.order.permutation import round_keys
from tokenmill.order.simple_orders import Arrangement
from tokenmill.order.source_order import ORDER_VERSION, SourceOrder, arrangement_of
from tokenmill.order.windows import Windows

_KEYS_OF_SOURCE = 6


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
    ) -> None:
        if not 0 <= seed < 1 << 63:
            raise ValueError(f"seed is {seed}; it must be 0 or more, and below 2^63")
        self.block_size, self.seed, self.phase = block_size, seed, phase
        self.stages = None if stages is None else tuple(stages)
        seeds = [seed]
        if stages is not None:  # one each, so that equal lengths do not give equal orders
            numbers = range(1, len(num_tokens) + 1)
            keys = [round_keys(seed, 0, _KEYS_OF_SOURCE, number)[0] for number in numbers]
            seeds = [int(key >> np.uint64(1)) for key in keys]
        self.sources = [
            SourceOrder(Windows(n, block_size, source_seed, phase), arrangement_of(order))
            for n, source_seed in zip(num_tokens, seeds, strict=True)
        ]
        self._mixture = None if stages is None else MixtureOrder(stages, seed=seed)

    @property
    def samples_per_epoch(self) -> int | None:
        """K; None for a mixture, where every source has its own."""
        return self.sources[0].samples_per_epoch if self._mixture is None else None

    def locate(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source and the first token of each sample, both in the shape of `samples`."""
        if self._mixture is None:
            return np.zeros(samples.shape, np.int64), self.sources[0].starts(samples)
        source, index = self._mixture.locate(samples)
        starts = np.empty(samples.shape, np.int64)
        for s in np.unique(source).tolist():
            starts[source == s] = self.sources[s].starts(index[source == s])
        return source, starts

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        """The epoch of its own source that each sample belongs to."""
        per_epoch = np.array([source.samples_per_epoch for source in self.sources])
        source, index = (0, samples) if self._mixture is None else self._mixture.locate(samples)
        epochs: np.ndarray = index // per_epoch[source]
        return epochs

    def samples_targeting(
        self, source: int, start: int, stop: int, epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """(epoch of the source, sample) of all samples with a target in start .. stop-1."""
        found = []
        for epoch in epochs:
            samples = self.sources[source].samples_targeting(start, stop, epoch)
            if self._mixture is not None:
                samples = self._mixture.sample_of(source, samples)
            found += [(epoch, sample) for sample in samples.tolist() if sample >= 0]
        return found

    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source come before this sample number."""
        return [sample] if self._mixture is None else self._mixture.counts_before(sample)

    def to_json(self) -> dict[str, Any]:
        """Everything the order depends on besides the data, as JSON."""
        return {
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
