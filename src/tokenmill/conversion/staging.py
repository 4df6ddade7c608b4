"""The folder next to its target in which a conversion writes, until the result is whole.

One conversion to a target works at a time. What a killed one left is removed by the next one; a
dataset that it had moved aside, to replace it, is moved back first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tokenmill.base.atomic import is_temporary, remove, replace_folder
from tokenmill.base.lock import hold_lock
from tokenmill.errors import LockedError


@dataclass(frozen=True)
class Staging:
    """What is written for `target`."""

    folder: Path
    target: Path

    @property
    def new(self) -> Path:
        """What will be the target."""
        return self.folder / "new"

    @property
    def replaced(self) -> Path:
        """What was the target, while the new one takes its place."""
        return self.folder / "replaced"

    def publish(self) -> None:
        """Put the new folder where the target is."""
        replace_folder(self.new, self.target, self.replaced)

    def clear(self) -> None:
        """Remove all that is here, but not the only copy of a dataset."""
        if self.replaced.exists() and not self.target.exists():
            os.rename(self.replaced, self.target)
        for path in (self.new, self.replaced):
            remove(path)
        for path in self.folder.glob(".*.tmp"):
            if is_temporary(path.name):
                remove(path)


def remove_leftovers(target: Path) -> None:
    """Remove what a conversion left that was killed when its result was in place."""
    if _staging_of(target).folder.exists():
        with suppress(OSError, LockedError), open_staging(target):
            pass


def _staging_of(target: Path) -> Staging:
    target = target.absolute()
    return Staging(target.with_name(f".{target.name}.convert"), target)


@contextmanager
def open_staging(target: Path) -> Iterator[Staging]:
    """An empty place to work in, for this process alone; removed at the end."""
    staging = _staging_of(target)
    try:
        with hold_lock(staging.folder / "lock", guards=staging.target):
            staging.clear()
            try:
                yield staging
            finally:
                with suppress(OSError):
                    staging.clear()
    finally:
        with suppress(OSError):
            staging.folder.rmdir()
