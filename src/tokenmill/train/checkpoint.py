"""Checkpoints: one folder a step, complete or not there.

    RUN/checkpoints/step_00000500/   model.pt, optimizer.pt, state.json
    RUN/checkpoints/latest           the name of the newest complete one

All of a step (weights, optimizer, position in the data, seed of the random numbers, settings) is
written to a temporary folder, synced, renamed, and only then named by `latest`: a process killed
at any moment leaves the checkpoint before it intact. `state.json` holds the size and hash of the
two others. Tensors are read with `weights_only=True` and with nothing else: no code in a file
runs.
"""

import json
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tokenmill.base.atomic import (
    is_temporary,
    remove,
    rename_durably,
    sync_file,
    sync_folder,
    temporary_beside,
    write_atomically,
)
from tokenmill.base.hashing import hash_file
from tokenmill.errors import CorruptShardError, FormatError, UnsupportedVersionError
from tokenmill.train.run_folder import latest, read_state

VERSION = 1


class Checkpoint(NamedTuple):
    """One complete step, as read."""

    step: int
    state: dict[str, Any]
    model: dict[str, Any]
    optimizer: dict[str, Any]


def save(
    run_dir: Path,
    *,
    step: int,
    model: dict[str, Any],
    optimizer: dict[str, Any],
    state: dict[str, Any],
    keep: int,
) -> Path:
    """Write the checkpoint of `step`, make it the latest, and remove all but `keep`."""
    folder = run_dir / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step_{step:08d}"
    if latest(run_dir) == final:
        return final  # nothing was trained since
    temporary = temporary_beside(final)
    temporary.mkdir()
    torch.save(model, temporary / "model.pt")
    torch.save(optimizer, temporary / "optimizer.pt")
    files = {name: _digest(temporary / name) for name in ("model.pt", "optimizer.pt")}
    text = json.dumps({"version": VERSION, "step": step, "files": files, **state}, indent=1)
    (temporary / "state.json").write_text(text, encoding="utf-8")
    for path in temporary.iterdir():
        sync_file(path)
    sync_folder(temporary)
    remove(final)  # complete, but never named by `latest`
    rename_durably(temporary, final)
    write_atomically(folder / "latest", f"{final.name}\n".encode("ascii"))
    remove_leftovers(run_dir, keep=keep)
    return final


def remove_leftovers(run_dir: Path, *, keep: int) -> None:
    """Remove all but `keep` checkpoints, and what a process left that was killed while writing."""
    for folder in (run_dir, run_dir / "checkpoints"):
        for path in folder.glob(".*.tmp"):
            if is_temporary(path.name):
                remove(path)
    newest = latest(run_dir)
    if newest is not None:
        others = sorted(p for p in newest.parent.glob("step_*") if p != newest)
        for old in others[: max(0, len(others) - (keep - 1))]:
            remove(old)


def load(folder: Path, *, device: str | torch.device = "cpu", optimizer: bool = True) -> Checkpoint:
    """Read a checkpoint whole, or refuse it; nothing in it is executed."""
    state = read_state(folder)
    if state["version"] != VERSION:
        raise UnsupportedVersionError(
            f"{folder} has checkpoint version {state['version']!r:.40}; "
            f"this tokenmill reads {VERSION}"
        )
    files = state["files"]
    if not isinstance(files, dict) or type(state["step"]) is not int:
        raise FormatError(f"{folder / 'state.json'} is damaged: its step or its files are not such")
    for name, expected in files.items():
        if name not in ("model.pt", "optimizer.pt") or _digest(folder / name) != expected:
            raise CorruptShardError(
                f"{folder / name} is not the file that was saved: its size or hash differs",
                hint=f"write the name of an older checkpoint into {folder.parent / 'latest'}",
            )
    tensors = read_tensors(folder / "optimizer.pt", device) if optimizer else {}
    return Checkpoint(state["step"], state, read_tensors(folder / "model.pt", device), tensors)


def read_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Tensors and plain values of a .pt file; anything that would run code is refused."""
    try:
        tensors: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise FormatError(
            f"{path} holds more than tensors and plain values, and was not loaded: "
            f"{str(error).splitlines()[0]}",
            hint="load only checkpoints that `tokenmill train` wrote",
        ) from None
    return tensors


def _digest(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"bytes": None, "xxh3_128": None}
    return {"bytes": path.stat().st_size, "xxh3_128": hash_file(path)}
