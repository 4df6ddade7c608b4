"""The data of a run: one of three ways of giving it, and what the model must know about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.tokens import load_tokenizer
from tokenmill.torch.text_file import open_text
from tokenmill.train.config import TrainConfig


@dataclass(frozen=True)
class TrainingData:
    """Both splits, and the meaning of their ids."""

    train: TokenDataset
    val: TokenDataset | None
    vocab_size: int
    """Ids are below this; one that is not ends the run."""
    tokenizer: Any
    """None when only a vocabulary size is known: samples are then shown as ids."""
    documents: bool
    """Whether attention and positions stay within documents."""

    @property
    def end_of_text_id(self) -> int | None:
        """The id between documents, if known."""
        return self.train.end_of_text_id

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """What the checkpoints remember of the data."""
        return {
            "train": self.train.fingerprint,
            "val": None if self.val is None else self.val.fingerprint,
        }

    def decode(self, ids: np.ndarray) -> str:
        """Text, or the ids themselves."""
        if self.tokenizer is None:
            return " ".join(map(str, ids.tolist()))
        text: bytes = self.tokenizer.decode(ids)
        return text.decode(errors="replace")


def open_data(config: TrainConfig, say: Callable[[str], object]) -> TrainingData:
    """Open what the one data setting names, and find out about its tokenizer and documents."""
    source = config.source
    wants_val = bool(config.eval_interval)
    if source == "input_file":
        train, val = _open_text(config, wants_val, say)
    elif source == "dataset_dir":
        train = _open(config, config.dataset_dir, "train", say)
        val = _open(config, config.dataset_dir, "val", say) if wants_val else None
    else:
        train, val = _open_two_files(config, wants_val, say)
    tokenizer = None if _ids_only(config) else train.tokenizer
    vocab_size = config.vocab_size or train.vocab_size
    if vocab_size is None:
        raise FormatError(
            f"nothing says how many ids {train.path} may hold",
            hint="--tokenizer NAME, or --vocab_size N",
        )
    if train.vocab_size is not None and vocab_size < train.vocab_size:
        raise ValueError(
            f"vocab_size {vocab_size:,} is below that of the data, {train.vocab_size:,}\n\n"
            "hint: leave --vocab_size out"
        )
    documents = config.documents == "on" or (config.documents == "auto" and train.knows_documents)
    say(
        f"Training on {train.num_tokens:,} tokens of {train.path} ({train.format}), validating on "
        f"{0 if val is None else val.num_tokens:,}; {vocab_size:,} ids"
        f"{'' if tokenizer is None else f' of {tokenizer.name}'}; "
        f"attention {'within documents' if documents else 'across documents'}"
    )
    return TrainingData(train, val, vocab_size, tokenizer, documents)


def _open_text(
    config: TrainConfig, wants_val: bool, say: Callable[[str], object]
) -> tuple[TokenDataset, TokenDataset | None]:
    assert config.input_file is not None
    splits = ["train", "val"] if wants_val else ["train"]
    train, *val = open_text(
        config.input_file,
        splits,
        tokenizer=config.tokenizer or "gpt2",
        say=say,
        warn=lambda text: say(f"warning: {text}"),
    )
    return train, val[0] if val else None


def _open_two_files(
    config: TrainConfig, wants_val: bool, say: Callable[[str], object]
) -> tuple[TokenDataset, TokenDataset | None]:
    """Training data alone holds out its last tenth; with validation data both are whole."""
    path, other = config.train_data_path, config.val_data_path
    if other is None:
        val = _open(config, path, "val", _silent) if wants_val else None
        return _open(config, path, "train", say), val
    val = _open(config, other, None, _silent) if wants_val else None
    return _open(config, path, None, say), val


def _open(
    config: TrainConfig, path: str | None, split: str | None, say: Callable[[str], object]
) -> TokenDataset:
    """Open token files; ids of an unnamed tokenizer are taken for gpt2's, and it is said so."""
    assert path is not None
    options: dict[str, Any] = {"dtype": config.dtype}
    data = dataset.open(path, split, **options, tokenizer=config.tokenizer)
    if _ids_only(config):
        return data
    if data.tokenizer is None:
        say(f"{path} does not name its tokenizer; taking its ids for those of gpt2 (--tokenizer)")
        options["tokenizer"] = "gpt2"
    else:
        options["tokenizer"] = config.tokenizer
    if data.end_of_text_id is None:
        known = data.tokenizer or load_tokenizer.load("gpt2")
        options["end_of_text_id"] = known.end_of_text_id
    return dataset.open(path, split, **options)


def _ids_only(config: TrainConfig) -> bool:
    """A vocabulary size without a tokenizer: the ids mean nothing to us."""
    return config.vocab_size is not None and config.tokenizer is None


def _silent(_: str) -> None:
    """Say nothing: the first split has said it."""
