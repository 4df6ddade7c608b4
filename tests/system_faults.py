"""Faults that really happen: system calls that fail (strace), disks that are full (tmpfs)."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

RENAMES = "rename,renameat,renameat2"
REMOVALS = "unlink,unlinkat,rmdir"

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no faults can be injected"
)


def injecting(what: str, calls: str, *, log: str | os.PathLike[str] = os.devnull) -> list[str]:
    """The start of a command that runs under strace with a fault injected into system calls."""
    return [
        *("strace", "-f", "-qq", "-o", os.fspath(log)),
        *("-e", f"trace={calls}", "-e", f"inject={calls}:{what}"),
    ]


class Disk:
    """A file system of its own, of the size that is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def used(self) -> int:
        """Bytes, in whole pages."""
        return shutil.disk_usage(self.path).used

    def resize(self, num_bytes: int) -> None:
        """Grow it, or shrink it down to what is used."""
        _mount("-o", f"remount,size={num_bytes}", str(self.path))


@contextmanager
def small_disk(path: Path, num_bytes: int) -> Iterator[Disk]:
    """Mount a disk of this size at a new folder; skip the test where that is not allowed."""
    path.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
