"""GPTDataLoader: `get_batch(split)` from a text in memory or from a dataset folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tokenmill import dataset
from tokenmill.base.suggest import one_of
from tokenmill.compat.text_file import encode_text, split_array
from tokenmill.compat.tokenized_dataset import BatchesOnDemand
from tokenmill.dataset import TokenDataset
from tokenmill.errors import NotADatasetError
from tokenmill.tokens import load_tokenizer


class GPTDataLoader:
    """Batches for a GPT.

    `config` (an object or a mapping) has `block_size` and `batch_size`, and may have `device` and
    `seed`. `tokenizer` is a name, one of tokenmill's, or anything with `encode(text) -> ids`. With
    `dataset_dir` the shards are memory-mapped; without it, call `prepare_data(text)` first.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any = None,
        dataset_dir: str | Path | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.config = config
        self.dataset_dir = dataset_dir
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer.load(tokenizer)
        self.tokenizer: Any = tokenizer
        self._ranks = {"rank": rank, "world_size": world_size}
        self._splits: dict[str, BatchesOnDemand] = {}
        if dataset_dir is not None:
            named = tokenizer if hasattr(tokenizer, "fingerprint") else None
            for split in ("train", "val"):
                self._add(split, dataset.open(dataset_dir, split, tokenizer=named))

    def prepare_data(self, text: str) -> None:
        """Tokenize a text in memory: the first 90 % for training, the rest for validation."""
        if self.dataset_dir is not None:
            raise ValueError(f"this loader reads {self.dataset_dir}; prepare_data is for text")
        if self.tokenizer is None:
            raise ValueError('no tokenizer: GPTDataLoader(config, tokenizer="gpt2")')
        if hasattr(self.tokenizer, "encode_batch"):
            ids = encode_text(text, self.tokenizer)
        else:
            encoded = self.tokenizer.encode(text)
            ids = np.asarray(getattr(encoded, "ids", encoded), dtype=np.uint32)
        for split in ("train", "val"):
            self._add(split, dataset.from_array(split_array(ids, split)))

    def _add(self, split: str, data: TokenDataset) -> None:
        self._splits[split] = BatchesOnDemand(
            data,
            block_size=int(self._setting("block_size")),
            seed=int(self._setting("seed", 0)),
            **self._ranks,
        )

    def get_batch(self, split: str = "train") -> tuple[Tensor, Tensor]:
        """The next (inputs, targets) of a split, each (batch_size, block_size) int64."""
        if not self._splits:
            raise NotADatasetError(
                "no data yet", hint="call prepare_data(text), or pass dataset_dir="
            )
        one_of("split", split, self._splits)
        size = int(self._setting("batch_size"))
        return self._splits[split].get_batch(size, self._setting("device", "auto"))

    def state_dict(self) -> dict[str, Any]:
        """How far each split is."""
        return {split: batches.state_dict() for split, batches in self._splits.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for split, batches in self._splits.items():
            batches.load_state_dict(state[split])

    def _setting(self, name: str, default: Any = None) -> Any:
        config = self.config
        value = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if value is None and default is None:
            raise ValueError(f"the config has no {name}; GPTDataLoader needs it")
        return default if value is None else value
