"""The target of a preparation: a new folder, a dataset to add to, or one to replace."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tokenmill.base.address import is_hub, is_remote
from tokenmill.base.atomic import replace_folder
from tokenmill.base.descriptors import rename
from tokenmill.base.hashing import regular
from tokenmill.base.lock import is_held
from tokenmill.base.signals import RESUME_HINT, stop_on_signals
from tokenmill.errors import (
    DownloadError,
    LockedError,
    PrepareError,
    SettingsMismatchError,
    TokenmillError,
)
from tokenmill.preparation.planning.settings import Run, Settings
from tokenmill.preparation.workspace.work_folder import WorkFolder, is_ours, refuse_link
from tokenmill.preparation.workspace.workspace import PLAN, Workspace
from tokenmill.shards.manifest import FILE_NAME, Manifest
from tokenmill.text.inputs.open_input import Source

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FAILING = (errno.EIO, errno.EROFS, errno.ESTALE)  # a disk that fails is often made read-only
AnyWorkspace = TypeVar("AnyWorkspace", bound=Workspace)


class Swap:
    """Replace one dataset by another: made next to it, then swapped by two renames.

    Open readers keep their files. If a process is killed between the two renames, the next one
    finishes the swap.
    """

    def __init__(self, out_dir: Path) -> None:
        self.out_dir = Path(os.path.realpath(out_dir))  # also when it is "." or a link
        self.new = self.out_dir.with_name(f".{self.out_dir.name}.tokenmill-new")
        self.old = self.out_dir.with_name(f".{self.out_dir.name}.tokenmill-old")

    def swap(self) -> None:
        shutil.rmtree(self.old, ignore_errors=True)
        replace_folder(self.new, self.out_dir, self.old)
        WorkFolder(self.out_dir).remove()

    def recover(self) -> None:
        """Finish a swap that was cut short."""
        if not self.old.exists():
            return
        if any(is_held(WorkFolder(folder).lock_file) for folder in (self.new, self.out_dir)):
            return
        if self.out_dir.exists():
            shutil.rmtree(self.old, ignore_errors=True)
        elif self.new.exists():
            self.swap()
        else:
            rename(self.old, self.out_dir)


@dataclass(frozen=True)
class Target:
    """The folder that is written, and the dataset that is in it already, if any."""

    out_dir: Path
    """The folder that the user named."""
    workspace: Workspace
    """In the same folder, or in one next to it when a dataset is replaced."""
    found: Manifest | None
    """The dataset that is there."""
    append: bool = False
    swap: Swap | None = None
    """Set when a dataset is replaced."""
    destination: str | None = None
    """Address that shards are uploaded to."""

    @property
    def name(self) -> str:
        return self.destination or str(self.out_dir)

    @property
    def replaces(self) -> bool:
        return self.swap is not None

    @property
    def previous(self) -> Manifest | None:
        """The dataset that is added to."""
        return self.found if self.append else None

    @property
    def previous_hash(self) -> str | None:
        return None if self.previous is None else self.previous.digest

    def finished_at(self) -> int:
        """Time at which the manifest that is there was written, in nanoseconds."""
        return os.stat(self.out_dir / FILE_NAME).st_mtime_ns

    def size_of(self, file: str) -> int | None:
        """Size of a file of the dataset that is there; None if it is gone."""
        try:
            return os.stat(self.out_dir / file).st_size
        except OSError:
            return None

    def read_file(self, file: str) -> bytes:
        """Read a small file of the dataset that is there."""
        with open(self.out_dir / file, "rb", opener=regular) as opened:
            return opened.read()

    def folder_for(self, settings: Settings, sources: Sequence[Source]) -> str:
        """Folder inside the dataset that new files go to, with a slash at its end."""
        return ""

    def finish(self) -> None:
        """Publish what is ready; where a dataset is replaced, put the new one in its place."""
        if self.swap is not None:
            self.swap.swap()
        self.clear_up()

    def clear_up(self) -> None:
        """Remove the work on a dataset that is published."""
        self.workspace.remove()


@contextmanager
def open_target(
    out_dir: str | os.PathLike[str], run: Run, *, append: bool, overwrite: bool
) -> Iterator[Target]:
    """Look at the output and lock it before anything is done."""
    if append and overwrite:
        raise ValueError("append and overwrite exclude each other; give one of them")
    if (run.scratch or run.max_scratch) and not is_remote(run.work_dir or ""):
        raise ValueError(
            f"scratch and max_scratch are for a work_dir in a bucket, and it is {run.work_dir}; "
            "leave them out"
        )
    if isinstance(out_dir, str) and is_remote(out_dir):
        from tokenmill.preparation.workspace.remote_target import open_remote_target

        with open_remote_target(out_dir, run, append=append, overwrite=overwrite) as target:
            yield target
        return
    if is_hub(out_dir):
        raise ValueError(f"{out_dir} can only be read; write to a folder, then upload it")
    if run.work_dir is not None:
        raise ValueError(
            f"work_dir is {os.fspath(run.work_dir)}, but the work on a dataset in a folder is done "
            "in that folder; leave it out"
        )
    out = Path(out_dir)
    swap = Swap(out)
    swap.recover()
    if append:
        Manifest.load(out)
    else:
        refuse_strange_folder(out)
    if overwrite and is_held(WorkFolder(out).lock_file) and not run.break_lock:
        raise LockedError(f"{out} is being written by another process", hint="wait for it to end")
    folder = refuse_link(swap.new) if overwrite else out
    with hold_workspace(WorkFolder(folder), break_lock=run.break_lock) as workspace:
        if overwrite:
            yield Target(out, workspace, None, swap=swap)
        else:
            found = Manifest.load(out) if append or (out / FILE_NAME).exists() else None
            yield Target(out, workspace, found, append)


@contextmanager
def hold_workspace(workspace: AnyWorkspace, *, break_lock: bool) -> Iterator[AnyWorkspace]:
    """Make and lock the workspace, explain a bad disk, leave nothing where nothing was started."""
    folder = workspace.out_dir
    existed = folder.exists()
    with ExitStack() as held:
        held.enter_context(stop_on_signals())
        try:
            held.enter_context(workspace.lock(break_lock=break_lock))
        except OSError as error:
            raise TokenmillError(
                f"cannot write to {folder}: {error.strerror}", hint="nothing was tokenized yet"
            ) from error
        held.enter_context(explain_bad_disk(folder))
        is_begun = True
        try:
            yield workspace
        finally:
            with suppress(DownloadError):  # a store that fails must not hide what went wrong
                is_begun = workspace.has(PLAN)
            if not is_begun:
                workspace.remove()
                if not existed:
                    with suppress(OSError):
                        folder.rmdir()


@contextmanager
def explain_bad_disk(folder: Path) -> Iterator[None]:
    """Explain errors of a disk that is full or failing."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            here = folder.absolute()
            usage = shutil.disk_usage(next(at for at in (here, *here.parents) if at.exists()))
            raise PrepareError(
                f"cannot write to {folder}: {error.strerror} "
                f"({usage.free:,} of {usage.total:,} bytes are free)",
                hint=f"free some space; then {RESUME_HINT}",
            ) from error
        if error.errno in FAILING:
            raise PrepareError(
                f"the disk that holds {folder} is failing: {error.strerror}"
                + (f" at {error.filename}" if error.filename else ""),
                hint=f"once it is repaired, {RESUME_HINT}",
            ) from error
        raise


def refuse_strange_folder(
    out: Path, is_ours: Callable[[Path], bool] = is_ours, what: str = "dataset"
) -> None:
    """Refuse a folder that holds something else: it is not ours to fill or to replace."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file, but a {what} is a folder; name another output")
    if out.exists() and not is_ours(out) and (strangers := sorted(os.listdir(out))):
        raise SettingsMismatchError(
            f"{out} holds {len(strangers)} files or folders but no {what} "
            f"(such as {strangers[0]!r})",
            hint="name an empty or new folder; only what tokenmill made there is ever replaced",
        )
