"""The data of a run: one of four ways of naming it, and the facts that the model needs.

`open_run` opens it again as it was at the last checkpoint, without torch. Its steps are those of
the data, counted from 0 over all ranks together: step 12 is what `--skip_steps 12` leaves out.
"""

import json
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokenmill import dataset
from tokenmill.base.atomic import make_folder, write_atomically
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.mixture import Mixture
from tokenmill.compat.text_file import Say, open_text
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, TokenizerMismatchError, TokenmillError
from tokenmill.tokens import load_tokenizer
from tokenmill.train.checkpoint import existing_latest, read_state, saved_steps
from tokenmill.train.config import TrainConfig, load_config

GPT2_SIZES = range(50_257, 50_305)  # as it is, up to what nanoGPT pads it to


@dataclass(frozen=True)
class TrainingData:
    """All splits, and the meaning of their ids."""

    train: TokenDataset | Mixture
    sources: dict[str, TokenDataset]
    """The training data by name: `train`, or each source of a mixture, such as train_web."""
    held_out: dict[str, TokenDataset]
    """The validation sets by name: `val`, and named ones such as val_code."""
    vocab_size: int
    """Ids are below this; one that is not ends the run."""
    tokenizer: Any
    """None when only a vocabulary size is known: samples are then shown as ids."""
    documents: bool
    """True if attention and positions stay within documents."""

    def decode(self, ids: np.ndarray) -> str:
        """Text, or without a tokenizer the ids themselves."""
        if self.tokenizer is None:
            return " ".join(map(str, ids.tolist()))
        text: bytes = self.tokenizer.decode(ids)
        return text.decode(errors="replace")


def open_data(config: TrainConfig, say: Say) -> TrainingData:
    """Open the data that the one data setting names, and find its tokenizer and documents."""
    train, held_out = _open_splits(config, say)
    named = {"train": train} if isinstance(train, TokenDataset) else {}
    if isinstance(train, Mixture):
        named = {f"train_{n}": data for n, data in zip(train.names, train.datasets, strict=True)}
    sources = list(named.values())
    _check_one_tokenizer({**named, **held_out})
    tokenizer = sources[0].tokenizer
    vocab_size = _vocab_size(config, sources)
    documents = config.documents
    if documents is None:
        documents = all(source.knows_documents for source in sources)
    trained = (f"{data.num_tokens:,} tokens of {data.path} ({data.format})" for data in sources)
    validated = (f"{data.num_tokens:,} tokens of {name}" for name, data in held_out.items())
    say(
        f"Training on {' and '.join(trained)}, validating on {' and '.join(validated) or 'none'}; "
        f"{vocab_size:,} ids of {'no tokenizer' if tokenizer is None else tokenizer.name}; "
        f"attention {'within' if documents else 'across'} documents; rows: {config.rows}"
    )
    return TrainingData(train, named, held_out, vocab_size, tokenizer, documents)


def _vocab_size(config: TrainConfig, sources: list[TokenDataset]) -> int:
    in_data = max((data.vocab_size for data in sources if data.vocab_size), default=None)
    vocab_size = config.vocab_size or in_data
    if vocab_size is None:
        raise FormatError(
            f"nothing says how many ids {sources[0].path} may hold",
            hint="say it with tokenizer= or vocab_size=",
        )
    if in_data is not None and vocab_size < in_data:
        raise ValueError(
            f"vocab_size {vocab_size:,} is below that of the data, {in_data:,}\n\n"
            f"hint: vocab_size={in_data}, or leave it out"
        )
    return vocab_size


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
        for split, part in {**data.sources, **data.held_out}.items()
    }
    files: dict[str, Any] = {"config.json": config.to_json(), "data.json": about}
    if data.tokenizer is not None:
        files["tokenizer_state.json"] = data.tokenizer.state()
    make_folder(config.run_dir)
    for name, content in files.items():
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(config.run_dir / name, text.encode(), durable=False)


def _open_splits(
    config: TrainConfig, say: Say
) -> tuple[TokenDataset | Mixture, dict[str, TokenDataset]]:
    """Open the data to train on and, unless there is no validation, the data held out for it."""
    if config.source != "mixture":
        return _open_one(config, say)
    trained: dict[str, TokenDataset] = {}
    held_out: dict[str, TokenDataset] = {}
    for name, path in config.paths_of_mixture.items():
        alone = replace(config, mixture=None, weights=None, dataset_dir=path)
        trained[name], held_out_of_it = _open_one(alone, say)
        held_out |= {f"{split}_{name}": data for split, data in held_out_of_it.items()}
    return Mixture(trained, weights=config.shares_of_mixture), held_out


def _open_one(config: TrainConfig, say: Say) -> tuple[TokenDataset, dict[str, TokenDataset]]:
    if config.input_file is not None:
        splits = ["train", "val"] if config.eval_interval else ["train"]
        opened = open_text(
            config.input_file,
            splits,
            tokenizer=config.tokenizer,
            say=say,
            warn=lambda text: say(f"warning: {text}"),
        )
        by_split = dict(zip(splits, opened, strict=True))
        return by_split.pop("train"), by_split
    path = config.dataset_dir or config.train_data_path
    assert path is not None
    has_val_file = config.val_data_path is not None  # then both files are used whole
    train = _open(config, path, "all" if has_val_file else "train", say)
    if not config.eval_interval:
        return train, {}
    if config.val_data_path is not None:
        return train, {"val": _open(config, config.val_data_path, "all")}
    whole = dataset.open(path, "all", dtype=config.dtype, tokenizer=config.tokenizer)
    held_out: dict[str, TokenDataset] = {}
    for name in ("val", *whole.named_splits):
        with suppress(FormatError) if whole.named_splits else nullcontext():  # `val` may be missing
            held_out[name] = _open(config, path, name)
    return train, held_out


def _open(config: TrainConfig, path: str, split: str, say: Say = lambda text: None) -> TokenDataset:
    """Open token files; ids of an unnamed tokenizer are read as those of gpt2, with a message.

    Not if the size of the vocabulary is another one: such ids can have any meaning.
    """
    how: dict[str, Any] = {"dtype": config.dtype, "where": config.where}
    data = dataset.open(path, split, tokenizer=config.tokenizer, **how)
    tokenizer = data.tokenizer
    size = config.vocab_size or data.stated_vocab_size
    if tokenizer is not None and data.end_of_text_id is not None:
        return data
    if tokenizer is None:
        if size is not None and size not in GPT2_SIZES:
            return data
        say(f"{path} does not name its tokenizer; taking its ids for those of gpt2 (--tokenizer)")
        tokenizer = load_tokenizer.load("gpt2")
    end = tokenizer.end_of_text_id if data.end_of_text_id is None else data.end_of_text_id
    return dataset.open(path, split, tokenizer=tokenizer, end_of_text=end, **how)


def _check_one_tokenizer(splits: dict[str, TokenDataset]) -> None:
    """Refuse data, to train or to validate on, whose ids mean different text."""
    known = {name: data.tokenizer for name, data in splits.items()}
    if len({getattr(tokenizer, "fingerprint", None) for tokenizer in known.values()}) > 1:
        listed = ", ".join(f"{name} {getattr(t, 'name', 'unknown')}" for name, t in known.items())
        raise TokenizerMismatchError(
            f"the data was made with different tokenizers: {listed}",
            hint="prepare it with one tokenizer, or name that of files that do not: tokenizer=",
        )


def _open_train(config: TrainConfig) -> TokenDataset | Mixture:
    return _open_splits(replace(config, eval_interval=0), lambda text: None)[0]


class Run(NamedTuple):
    """A run that was opened to look at."""

    loader: BatchLoader
    """All ranks as one; it is at the last checkpoint."""
    checkpoints: dict[str, int]
    """The steps of the data before each checkpoint that is kept."""
    left_out: frozenset[int]
    """The steps that were not, or will not be trained on (`skip_steps`)."""
    end: int
    """The step of the data after the last one, at `max_iters`."""


def open_run(run_dir: Path, path: str | None = None) -> Run:
    """Open a run at its last checkpoint; `path` is where its data is now, if it was moved."""
    newest = existing_latest(run_dir)
    state = read_state(newest)
    config = load_config(None, state["config"])
    loader = BatchLoader(
        _open_moved(config, path),
        batch_size=config.rows_per_step,
        **config.order_options,
        form=BatchForm(prefetch=0, check_ids=False),
    )
    loader.load_state_dict(state["loader"])
    kept = saved_steps(run_dir)
    steps = {
        folder.name: read_state(folder)["loader"]["samples"] // config.rows_per_step
        for folder in kept[: kept.index(newest) + 1]
    }
    to_skip = sorted(step for step in config.skipped if step >= loader.step)
    end = loader.step + max(0, config.max_iters - state["step"])
    for step in to_skip:
        end += step < end
    return Run(loader, steps, frozenset([*state["left_out"], *to_skip]), end)


def _open_moved(config: TrainConfig, path: str | None) -> TokenDataset | Mixture:
    """Open the data with which the run began; `path` is used if it is no longer there."""
    try:
        return _open_train(config)
    except (OSError, TokenmillError):
        if path is None:
            raise
    moved: dict[str, Any] = {config.source: path, "val_data_path": config.val_data_path and path}
    if config.source == "mixture":
        moved = {"mixture": _moved_mixture(config, Path(path))}
    return _open_train(replace(config, **moved))


def _moved_mixture(config: TrainConfig, path: Path) -> str:
    """Name the sources of a mixture where they are now: next to `path`, or at `path` itself.

    A wrong guess is refused when the fingerprints of the state are compared.
    """
    places = {}
    for name, old in config.paths_of_mixture.items():
        beside = path.parent / Path(old).name
        moved = beside if beside.exists() else path
        places[name] = old if glob(old) else moved  # noqa: PTH207 - a path or a pattern
    return ",".join(f"{name}={place}" for name, place in places.items())


def source_at(loader: BatchLoader, path: str) -> str:
    """Return the name of the source whose data is at a path: by its name, or its fingerprint."""
    sources = dict(zip(loader.names, loader.datasets, strict=True))
    for name, data in sources.items():
        if data.path == path:
            return name
    for name, data in sources.items():
        if dataset.open(path, data.split or "all").fingerprint == data.fingerprint:
            return name
    known = ", ".join(f"{name} ({data.path})" for name, data in sources.items())
    raise FormatError(
        f"{path} is not the data of a source of this run", hint=f"its sources are: {known}"
    )
