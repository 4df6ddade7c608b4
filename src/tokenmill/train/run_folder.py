"""The checkpoints of a run, as far as they can be read without torch.

RUN/checkpoints/step_00000500/state.json   settings, and the position in the data
RUN/checkpoints/latest                     the name of the newest complete one
"""

from pathlib import Path
from typing import Any, NoReturn

from tokenmill.base.strict_json import parse_object
from tokenmill.errors import FormatError, NotADatasetError


def latest(run_dir: Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None."""
    pointer = run_dir / "checkpoints" / "latest"
    if not pointer.exists():
        return None
    name = pointer.read_text(encoding="ascii", errors="replace").strip()
    if not (name.startswith("step_") and name[5:].isdecimal()):
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


def all_checkpoints(run_dir: Path) -> list[Path]:
    """The complete checkpoints that are kept, oldest first."""
    return sorted(path for path in (run_dir / "checkpoints").glob("step_*") if path.is_dir())


def read_state(folder: Path) -> dict[str, Any]:
    """The settings and the position in the data of a checkpoint, without its tensors."""
    path = folder / "state.json"
    try:
        return _State(parse_object(path.read_bytes(), str(path)))
    except FileNotFoundError:
        raise FormatError(
            f"{folder}, named by {folder.parent}/latest, is not a checkpoint: it has no state.json",
            hint=f"write the name of another checkpoint in {folder.parent} into it",
        ) from None


class _State(dict[str, Any]):
    """The fields of a state.json; one that is asked for and missing is an error of ours."""

    def __missing__(self, key: str) -> NoReturn:
        raise FormatError(f"the state.json of this checkpoint has no {key!r}: it is damaged")
