"""The loader of a run, as it was at its last checkpoint: from the run's folder and the data.

Its steps are those of the data, counted from 0 and of all ranks together: step 12 is what
`--skip_steps 12` leaves out.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.mixture import Mixture
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.train.checkpoint import existing_latest, read_state
from tokenmill.train.config import TrainConfig, load_config
from tokenmill.train.run_data import open_train


class Run(NamedTuple):
    """A run that was opened to look at."""

    loader: BatchLoader
    """All ranks as one; it is at the last checkpoint."""
    checkpoints: dict[str, int]
    """The steps of the data before each checkpoint that is kept."""
    left_out: frozenset[int]
    """The steps that were not trained on (`skip_steps`)."""


def open_run(run_dir: Path, path: str | None = None) -> Run:
    """Open a run at its last checkpoint; `path` is where its data is now, if it was moved."""
    newest = existing_latest(run_dir)
    state = read_state(newest)
    config = load_config(None, state["config"])
    loader = BatchLoader(
        _open(config, path),
        batch_size=config.rows_per_step,
        **config.order_options,
        form=BatchForm(prefetch=0, check_ids=False),
    )
    loader.load_state_dict(state["loader"])
    steps = {
        folder.name: read_state(folder)["loader"]["samples"] // config.rows_per_step
        for folder in sorted(newest.parent.glob("step_*"))
    }
    return Run(loader, steps, frozenset(state["left_out"]))


def _open(config: TrainConfig, path: str | None) -> TokenDataset | Mixture:
    """Open the data with which the run began; `path` is used if it is no longer there."""
    try:
        return open_train(config)
    except (OSError, TokenmillError):
        if path is None:
            raise
    moved: dict[str, Any] = {config.source: path, "val_data_path": config.val_data_path and path}
    if config.source == "mixture":
        moved = {"mixture": _moved_mixture(config, Path(path))}
    return open_train(replace(config, **moved))


def _moved_mixture(config: TrainConfig, path: Path) -> str:
    """Name the sources of a mixture where they are now: one at `path`, others next to it.

    A wrong guess is found when the fingerprints of the state are compared.
    """
    sources = config.paths_of_mixture
    moved = {
        name: path.parent / Path(old).name
        for name, old in sources.items()
        if not _opens(config, old)
    }
    missing = [name for name, place in moved.items() if not place.exists()]
    if len(missing) == 1 and path not in moved.values():
        moved[missing.pop()] = path
    if missing:
        listed = ", ".join(f"{name} ({sources[name]})" for name in missing)
        raise FormatError(
            f"sources of the run are neither where they were nor next to {path}: {listed}",
            hint=f"move or link them into {path.parent}, with the names that they had",
        )
    return ",".join(f"{name}={moved.get(name, old)}" for name, old in sources.items())


def _opens(config: TrainConfig, path: str) -> bool:
    try:
        open_dataset(path, "all", dtype=config.dtype, tokenizer=config.tokenizer)
    except (OSError, TokenmillError):
        return False
    return True


def source_at(loader: BatchLoader, path: str) -> str:
    """Return the name of the source whose data is at a path: by its name, or its fingerprint."""
    sources = dict(zip(loader.names, loader.datasets, strict=True))
    for name, data in sources.items():
        if data.path == path:
            return name
    for name, data in sources.items():
        if open_dataset(path, data.split or "all").fingerprint == data.fingerprint:
            return name
    known = ", ".join(f"{name} ({data.path})" for name, data in sources.items())
    raise FormatError(
        f"{path} is not the data of a source of this run", hint=f"its sources are: {known}"
    )
