"""Replace one dataset by another: made beside it, then swapped by two renames.

    .NAME.tokenmill-new   the new dataset while it is made
    .NAME.tokenmill-old   the old one, for the moment of the swap; open readers keep their files

A process can be killed between the two renames; the next one that comes by finishes the swap.
"""

import os
import shutil
from pathlib import Path

from tokenmill.base.atomic import replace_folder
from tokenmill.base.lock import is_held
from tokenmill.preparation.workspace.work_folder import Workspace


class Swap:
    """The names, and the two steps."""

    def __init__(self, out_dir: Path) -> None:
        self.out_dir = Path(os.path.realpath(out_dir))  # also when it is "." or a link
        self.new, self.old = (
            self.out_dir.with_name(f".{self.out_dir.name}.tokenmill-{which}")
            for which in ("new", "old")
        )

    def swap(self) -> None:
        """Put the new dataset where the old one is, and remove the old one."""
        shutil.rmtree(self.old, ignore_errors=True)
        replace_folder(self.new, self.out_dir, self.old)
        Workspace(self.out_dir).remove()

    def recover(self) -> None:
        """Finish a swap that was cut short; nothing to do, nearly always."""
        if not self.old.exists() or self._is_under_way():
            return
        if self.out_dir.exists():
            shutil.rmtree(self.old, ignore_errors=True)
        elif self.new.exists():
            self.swap()
        else:
            os.rename(self.old, self.out_dir)

    def _is_under_way(self) -> bool:
        return any(is_held(Workspace(at).lock_file) for at in (self.new, self.out_dir))
