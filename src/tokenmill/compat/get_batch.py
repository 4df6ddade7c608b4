"""TokenizedDataset and GPTDataLoader: `get_batch` from shards, or from a text in memory."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tokenmill import dataset
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import check_below, one_of
from tokenmill.compat.own_words import in_own_words
from tokenmill.compat.text_file import encode_text, split_array
from tokenmill.dataset import TokenDataset
from tokenmill.errors import NotADatasetError
from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.tokenizer import Tokenizer
from tokenmill.torch.torch_loader import TorchLoader, known_device


class BatchesOnDemand:
    """A TorchLoader, with its `options`, whose batch size and device may differ in every call."""

    def __init__(self, data: Any, **options: Any) -> None:
        self._open = functools.partial(TorchLoader, data, **options)

    @functools.cached_property
    def _loader(self) -> TorchLoader:
        """Replaced when a batch of another size, or on another device, is asked for."""
        return self._open(batch_size=1)

    def get_batch(
        self, batch_size: int, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Tensor]:
        """The next (inputs, targets) of this rank, each (batch_size, block_size) int64 on `device`.

        `auto` is the GPU if there is one, else the CPU. No row comes twice in an epoch.
        """
        if str(device) == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        device = known_device(device)
        if (self._loader.batch_size, self._loader.device) != (batch_size, device):
            state = self.state_dict()
            self._loader.close()
            self._loader = self._open(batch_size=batch_size, device=device)
            self._loader.load_state_dict(state)
        inputs, targets = next(self._loader)
        return inputs, targets

    def state_dict(self) -> dict[str, Any]:
        """The state of a BatchLoader: a few JSON values."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state, refused at once if it belongs to other data."""
        self._loader.load_state_dict(state)


class TokenizedDataset(BatchesOnDemand):
    """Shards of a folder, in any format that `tokenmill.open` reads, as one axis of tokens.

    `split="val"` is what the file names call so, else the last shard; `train` is the rest. Each
    process draws its own rows (`rank`, `world_size`; found by themselves under torchrun), shuffled
    without replacement. Further arguments are those of `tokenmill.open`.
    """

    @takes_keywords_of(dataset.open, but=["path"])
    @in_own_words()
    def __init__(
        self,
        data_dir: str | Path,
        split: str = "train",
        block_size: int = 1024,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        **open_options: Any,
    ) -> None:
        data = dataset.open(data_dir, split, **open_options)
        super().__init__(data, block_size=block_size, seed=seed, rank=rank, world_size=world_size)
        self.shards = [shard.file for shard in data.shards]
        self.lengths = [shard.num_tokens for shard in data.shards]
        self.total_length = data.num_tokens
        self._tokens = data.tokens

    def _get_tokens(self, global_idx: int, length: int) -> np.ndarray:
        """Tokens from a place of the axis on, also across shards; fewer at its end."""
        check_below("global_idx", global_idx, self.total_length)
        return self._tokens(global_idx, min(global_idx + length, self.total_length))


class GPTDataLoader:
    """Batches for a GPT.

    `config` (an object or a mapping) has `block_size` and `batch_size`, and may have `device` and
    `seed`. `tokenizer` is a name, one of tokenmill's, or anything with `encode(text) -> ids`. With
    `dataset_dir` the shards are memory-mapped, and further arguments are those of `tokenmill.open`;
    without it, call `prepare_data(text)` first.
    """

    @takes_keywords_of(dataset.open, but=["path", "split"])
    @in_own_words()
    def __init__(
        self,
        config: Any,
        tokenizer: Any = None,
        dataset_dir: str | Path | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        **open_options: Any,
    ) -> None:
        self.config = config
        self.dataset_dir = dataset_dir
        if isinstance(tokenizer, str | Path):
            tokenizer = load_tokenizer.load(tokenizer)
        if tokenizer is not None and not hasattr(tokenizer, "encode"):
            raise TypeError(f"tokenizer is {tokenizer!r:.100}, which has no encode(text)")
        self.tokenizer: Any = tokenizer
        self._ranks = {"rank": rank, "world_size": world_size}
        self._splits: dict[str, BatchesOnDemand] = {}
        if dataset_dir is not None:
            named = tokenizer if hasattr(tokenizer, "fingerprint") else None
            for split in ("train", "val"):
                data = dataset.open(dataset_dir, split, tokenizer=named, **open_options)
                self._add(split, data)

    def prepare_data(self, text: str) -> None:
        """Tokenize a text in memory: the first 90 % for training, the rest for validation."""
        if self.dataset_dir is not None:
            raise ValueError(f"this loader reads {self.dataset_dir}; prepare_data is for text")
        if self.tokenizer is None:
            raise ValueError('no tokenizer: GPTDataLoader(config, tokenizer="gpt2")')
        if isinstance(self.tokenizer, Tokenizer):
            ids = encode_text(text, self.tokenizer)
        else:  # tiktoken's `encode` refuses a text with special tokens in it
            encode = getattr(self.tokenizer, "encode_ordinary", self.tokenizer.encode)
            encoded = encode(text)
            ids = np.asarray(getattr(encoded, "ids", encoded))
            if ids.ndim != 1 or ids.dtype.kind not in "ui":
                raise TypeError(f"{encode} returned {encoded!r:.100}, not a list of ids")
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
