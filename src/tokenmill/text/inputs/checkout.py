"""The files of a git checkout that git does not ignore, by git itself: its rules are many."""

import os
import subprocess

from tokenmill.errors import PrepareError
from tokenmill.text.inputs.open_input import printable


def without_ignored(paths: list[str], folder: str, skipped: list[str]) -> list[str]:
    """Return the paths in a folder that git does not ignore; the others are `skipped`."""
    files = _files_of(folder)
    if not (kept := [path for path in paths if path in files]):
        raise PrepareError(f"git ignores all {len(paths):,} files found in {printable(folder)}")
    skipped += [path for path in paths if path not in files]
    return kept


def _files_of(folder: str) -> set[str]:
    """Return the paths of all files below a folder that are tracked, or new and not ignored."""
    base = os.path.abspath(folder)
    command = "ls-files -z --cached --others --exclude-standard"
    try:
        done = subprocess.run(
            ["git", "-C", base, *command.split()], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = os.fsdecode(getattr(error, "stderr", None) or str(error)).partition("\n")[0]
        raise PrepareError(
            f"git cannot list the files of {printable(base)}: {printable(said)}",
            hint="gitignore=True is for folders in a checkout; leave it out for others",
        ) from error
    paths = [f"{base}/{os.fsdecode(name)}" for name in done.stdout.split(b"\0") if name]
    inside = [path.rstrip("/") for path in paths if os.path.isdir(path)]  # other checkouts in it
    return {*paths}.union(*map(_files_of, inside))
