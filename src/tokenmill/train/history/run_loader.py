"""The loader of a run, as it was at its last checkpoint: from the run's folder and the data.

Its steps are those of the data, counted from 0 and of all ranks together: step 12 is what
`--skip_steps 12` leaves out.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.mixture import Mixture
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.train.config import TrainConfig, from_dict
from tokenmill.train.history.run_folder import all_checkpoints, existing_latest, read_state
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
    """A run at its last checkpoint; `path` is where its data is now, if it was moved."""
    state = read_state(existing_latest(run_dir))
    config = from_dict(state["config"], where=f"{run_dir}/checkpoints")
    loader = BatchLoader(
        _open(config, path),
        batch_size=config.batch_size,
        block_size=config.block_size,
        seed=config.seed,
        order=config.order,
        rows=config.rows,
        begin_token=config.begin_token,
        augment=config.augment,
        prefetch=0,
        check_ids=False,
    )
    loader.load_state_dict(state["loader"])
    samples = {
        folder.name: read_state(folder)["loader"]["samples"] for folder in all_checkpoints(run_dir)
    }
    steps = {name: count // config.batch_size for name, count in samples.items()}
    return Run(loader, steps, frozenset(left_out_of(state, config)))


def left_out_of(state: Mapping[str, Any], config: TrainConfig) -> list[int]:
    """The steps of the data that a run did not train on, up to a checkpoint."""
    if "left_out" in state:
        return list(state["left_out"])
    end = state["loader"]["samples"] // config.batch_size
    return sorted(step for step in config.skipped if step < end)


def _open(config: TrainConfig, path: str | None) -> TokenDataset | Mixture:
    """What the run began with; what there is to say about it was said then."""
    try:
        return open_train(config, say=lambda _: None)
    except (OSError, TokenmillError):
        if path is None or config.source == "mixture":  # one path does not say where all are
            raise
        moved: dict[str, Any] = {
            config.source: path,
            "val_data_path": config.val_data_path and path,
        }
        return open_train(replace(config, **moved), say=lambda _: None)


def source_at(loader: BatchLoader, path: str) -> str:
    """The name of the source of a run whose data is at a path: by its name, or its fingerprint."""
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
