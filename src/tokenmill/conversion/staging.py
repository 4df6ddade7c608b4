"""The folder next to its target in which a conversion writes, until the result is whole.

One conversion to a target works at a time. What a killed one left is removed by the next one; a
dataset that it had moved aside, to replace it, is moved back first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tokenmill.base.atomic import is_temporary, remove, replace_folder
from tokenmill.base.lock import hold_lock


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, for this process alone, that takes the place of `target` at the end.

    After an error nothing of it is left.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.convert")
    new = staging / "new"
    replaced = staging / "replaced"

    def clear() -> None:
        """Remove all that is here, but not the only copy of a dataset."""
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        temporary = [path for path in staging.glob(".*.tmp") if is_temporary(path.name)]
        for path in (new, replaced, *temporary):
            remove(path)

    try:
        with hold_lock(staging / "lock", guards=target):
            clear()
            new.mkdir()
            try:
                yield new
                replace_folder(new, target, replaced)
            finally:
                with suppress(OSError):
                    clear()
    finally:
        with suppress(OSError):
            staging.rmdir()
