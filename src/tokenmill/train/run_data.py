"""The data of a run: one of three ways of giving it, and what the model must know about it."""

import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.base.atomic import write_atomically
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.tokens import load_tokenizer
from tokenmill.train.config import TrainConfig

Say = Callable[[str], object]


@dataclass(frozen=True)
class TrainingData:
    """All splits, and the meaning of their ids."""

    train: TokenDataset
    held_out: dict[str, TokenDataset]
    """The validation sets by name: `val`, and those with a name of their own, such as val_code."""
    vocab_size: int
    """Ids are below this; one that is not ends the run."""
    tokenizer: Any
    """None when only a vocabulary size is known: samples are then shown as ids."""
    documents: bool
    """Whether attention and positions stay within documents."""

    def decode(self, ids: np.ndarray) -> str:
        """Text, or without a tokenizer the ids themselves."""
        if self.tokenizer is None:
            return " ".join(map(str, ids.tolist()))
        text: bytes = self.tokenizer.decode(ids)
        return text.decode(errors="replace")


def open_data(config: TrainConfig, say: Say) -> TrainingData:
    """Open what the one data setting names, and find out about its tokenizer and documents."""
    train, held_out = _open_splits(config, say)
    tokenizer = None if _ids_only(config) else train.tokenizer
    vocab_size = config.vocab_size or train.vocab_size
    if vocab_size is None:
        raise FormatError(
            f"nothing says how many ids {train.path} may hold",
            hint="say it with tokenizer= or vocab_size=",
        )
    if train.vocab_size is not None and vocab_size < train.vocab_size:
        raise ValueError(
            f"vocab_size {vocab_size:,} is below that of the data, {train.vocab_size:,}\n\n"
            "hint: leave vocab_size out"
        )
    documents = config.documents == "on" or (config.documents == "auto" and train.knows_documents)
    say(
        f"Training on {train.num_tokens:,} tokens of {train.path} ({train.format}), validating on "
        f"{_sizes(held_out)}; {vocab_size:,} ids"
        f"{'' if tokenizer is None else f' of {tokenizer.name}'}; "
        f"attention {'within documents' if documents else 'across documents'}"
        f"{'' if config.rows == 'windows' else f'; rows: {config.rows}'}"
    )
    return TrainingData(train, held_out, vocab_size, tokenizer, documents)


def _sizes(held_out: dict[str, TokenDataset]) -> str:
    """ "1,234", or "1,234 of val and 567 of val_code"."""
    if list(held_out) in ([], ["val"]):
        return f"{sum(data.num_tokens for data in held_out.values()):,}"
    return " and ".join(f"{data.num_tokens:,} of {name}" for name, data in held_out.items())


def describe_run(config: TrainConfig, data: TrainingData) -> None:
    """Write the settings, what the data was, and the tokenizer to read the model's ids with."""
    about = {
        split: {
            "path": part.path,
            "format": part.format,
            "split": part.split,
            "tokens": part.num_tokens,
            "fingerprint": part.fingerprint,
        }
        for split, part in {"train": data.train, **data.held_out}.items()
    }
    files: dict[str, Any] = {"config.json": config.to_json(), "data.json": about}
    if data.tokenizer is not None:
        files["tokenizer_state.json"] = data.tokenizer.state()
    config.run_dir.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(config.run_dir / name, text.encode(), durable=False)


def open_train(config: TrainConfig, say: Say) -> TokenDataset:
    """The data to train on alone."""
    return _open_splits(replace(config, eval_interval=0), say)[0]


def _open_splits(config: TrainConfig, say: Say) -> tuple[TokenDataset, dict[str, TokenDataset]]:
    """The data to train on and, unless there is no validation, the data held out for it."""
    wants_val = bool(config.eval_interval)
    if config.source == "input_file":
        from tokenmill.torch.text_file import open_text  # only here: with it comes torch

        assert config.input_file is not None
        train, *held_out = open_text(
            config.input_file,
            ["train", "val"] if wants_val else ["train"],
            tokenizer=config.tokenizer or "gpt2",
            say=say,
            warn=lambda text: say(f"warning: {text}"),
        )
        return train, dict(zip(["val"], held_out, strict=False))
    path = val_path = config.dataset_dir or config.train_data_path
    splits = ("train", "val")
    if config.val_data_path is not None:  # then both files are used whole
        val_path, splits = config.val_data_path, ("all", "all")
    train = _open(config, path, splits[0], say)
    found: dict[str, TokenDataset] = {}
    named = _named(config, path) if config.val_data_path is None else []
    for name in ["val", *named] if wants_val else []:
        with suppress(FormatError) if named and name == "val" else nullcontext():
            split = splits[1] if name == "val" else name
            # What there is to say about the files was said with the first split.
            found[name] = _open(config, val_path, split, lambda _: None)
    return train, found


def _named(config: TrainConfig, path: str | None) -> list[str]:
    """The validation sets of the data that have names of their own."""
    assert path is not None
    whole = dataset.open(path, "all", dtype=config.dtype, tokenizer=config.tokenizer)
    return whole.named_splits


def _open(config: TrainConfig, path: str | None, split: str, say: Say) -> TokenDataset:
    """Open token files; ids of an unnamed tokenizer are read as those of gpt2, with a message."""
    assert path is not None
    options: dict[str, Any] = {"dtype": config.dtype, "tokenizer": config.tokenizer}
    data = dataset.open(path, split, **options)
    if _ids_only(config):
        return data
    if data.tokenizer is None:
        say(f"{path} does not name its tokenizer; taking its ids for those of gpt2 (--tokenizer)")
        options["tokenizer"] = "gpt2"
    if data.end_of_text_id is None:
        known = data.tokenizer or load_tokenizer.load("gpt2")
        options["end_of_text_id"] = known.end_of_text_id
    return dataset.open(path, split, **options)


def _ids_only(config: TrainConfig) -> bool:
    """A vocabulary size without a tokenizer: the ids mean nothing to us."""
    return config.vocab_size is not None and config.tokenizer is None
