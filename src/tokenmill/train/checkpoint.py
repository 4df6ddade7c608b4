"""Checkpoints: one folder per step, complete or not there.

    RUN/checkpoints/step_00000500/   model.pt, optimizer.pt, state.json
    RUN/checkpoints/latest           the name of the newest complete one

A step is written to a temporary folder, synced, renamed, and only then named by `latest`: a
process killed at any moment leaves the checkpoint before it intact. `state.json` holds the size and
hash of the two others and a hash of its own fields; it can be read without torch.
"""

import json
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import xxhash

from tokenmill.base import atomic
from tokenmill.base.hashing import hash_file
from tokenmill.base.strict_json import parse_object
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    NotADatasetError,
    TokenmillError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    import torch

VERSION = 1
TENSORS = ("model.pt", "optimizer.pt")
_NAME = re.compile("step_[0-9]{8,}")


def latest(run_dir: Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None."""
    pointer = run_dir / "checkpoints" / "latest"
    if not pointer.exists():
        return None
    name = pointer.read_text(encoding="ascii", errors="replace").strip()
    if not _NAME.fullmatch(name):
        raise FormatError(
            f"{pointer} holds {name[:40]!r}; "
            "expected the name of a checkpoint such as step_00000500"
        )
    return pointer.parent / name


def existing_latest(run_dir: Path) -> Path:
    """Return the newest complete checkpoint; it is an error if there is none."""
    folder = latest(run_dir)
    if folder is None:
        raise NotADatasetError(
            f"{run_dir} has no checkpoint",
            hint="name the folder of a run, such as runs/gpt; `tokenmill train` makes one",
        )
    return folder


class _State(dict[str, Any]):
    """The fields of a state.json; one that is asked for and missing is an error of ours."""

    def __missing__(self, key: str) -> NoReturn:
        raise FormatError(f"the state.json of this checkpoint has no {key!r}: it is damaged")


def read_state(folder: Path) -> dict[str, Any]:
    """Return the settings and the position in the data of a checkpoint, without its tensors."""
    path = folder / "state.json"
    if not path.exists():
        raise FormatError(
            f"{folder}, named by {folder.parent}/latest, is not a checkpoint: it has no state.json",
            hint=f"write the name of another checkpoint in {folder.parent} into it",
        )
    state = _State(parse_object(path.read_bytes(), str(path)))
    if state["version"] != VERSION:
        raise UnsupportedVersionError(
            f"{folder} has checkpoint version {state['version']!r:.40}; "
            f"this tokenmill reads {VERSION}"
        )
    if state.pop("xxh3_128", None) != _hash_of(state):
        raise CorruptShardError(
            f"{path} is not the file that was saved: its hash differs", hint=_older(folder)
        )
    step = state["step"]
    if type(step) is not int or _step_of(folder) != step:
        raise FormatError(
            f"{path} is of step {step!r:.40}, and its folder is named {folder.name}",
            hint="give the folder its name back; the step is in it, with eight digits",
        )
    return state


def _step_of(folder: Path) -> int:
    return int(folder.name[5:])


def saved_steps(run_dir: Path) -> list[Path]:
    """Return the checkpoints of a run, by their steps.

    Those after `latest` are not part of it: somebody went back to an older one.
    """
    found = (run_dir / "checkpoints").iterdir()
    return sorted((path for path in found if _NAME.fullmatch(path.name)), key=_step_of)


def _hash_of(fields: dict[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(fields).encode())


def _older(folder: Path) -> str:
    return f"write the name of an older checkpoint into {folder.parent / 'latest'}"


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
    import torch

    folder = run_dir / "checkpoints"
    atomic.make_folder(folder)
    final = folder / f"step_{step:08d}"
    if latest(run_dir) == final:
        return final  # nothing was trained since
    temporary = atomic.temporary_beside(final)
    temporary.mkdir()
    for name, tensors in zip(TENSORS, (model, optimizer), strict=True):
        try:
            torch.save(tensors, temporary / name)
        except RuntimeError as error:  # a full disk, in the words of torch
            raise TokenmillError(
                f"cannot write {temporary / name}: {str(error).splitlines()[0]}",
                hint="free some space; resume=True continues from the checkpoint before",
            ) from error
    files = {name: _digest(temporary / name) for name in TENSORS}
    fields = {"version": VERSION, "step": step, "files": files, **state}
    text = json.dumps({**fields, "xxh3_128": _hash_of(fields)}, indent=1)
    (temporary / "state.json").write_bytes(text.encode())
    for path in temporary.iterdir():
        atomic.sync_file(path)
    atomic.sync_folder(temporary)
    # One that is there is complete, but was never named by `latest`.
    atomic.replace_folder(temporary, final, atomic.temporary_beside(final))
    atomic.write_atomically(folder / "latest", f"{final.name}\n".encode("ascii"))
    for path in saved_steps(run_dir):
        if _step_of(path) > step:
            atomic.remove_whole(path)
    remove_leftovers(run_dir, keep=keep)
    return final


def remove_leftovers(run_dir: Path, *, keep: int) -> None:
    """Remove all but `keep` checkpoints up to the latest, and what a killed process left."""
    for folder in (run_dir, run_dir / "checkpoints"):
        for path in folder.glob(".*.tmp"):
            if atomic.is_temporary(path.name):
                atomic.remove(path)
    newest = latest(run_dir)
    if newest is not None:
        older = [path for path in saved_steps(run_dir) if _step_of(path) < _step_of(newest)]
        for old in older[: max(0, len(older) - (keep - 1))]:
            atomic.remove_whole(old)


def load(
    folder: Path, *, device: "str | torch.device" = "cpu", optimizer: bool = True
) -> Checkpoint:
    """Read a checkpoint whole, or refuse it; nothing in it is executed."""
    state = read_state(folder)
    files = state["files"]
    if not isinstance(files, dict):
        raise FormatError(f"{folder / 'state.json'} is damaged: its files are {files!r:.40}")
    for name in TENSORS:
        if files.get(name) != _digest(folder / name):
            raise CorruptShardError(
                f"{folder / name} is not the file that was saved: its size or hash differs",
                hint=_older(folder),
            )
    tensors = read_tensors(folder / "optimizer.pt", device) if optimizer else {}
    return Checkpoint(state["step"], state, read_tensors(folder / "model.pt", device), tensors)


def read_tensors(path: Path, device: "str | torch.device" = "cpu") -> dict[str, Any]:
    """Return the tensors and plain values of a .pt file; refuse anything that would run code."""
    import torch

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
