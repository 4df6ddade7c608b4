"""The workspace of a preparation: everything that is needed to resume, wherever that is.

Stages ask a `Workspace` for files, and never for a path: it is a folder that all machines see
(work_folder.py), or a prefix in a bucket (work_bucket.py). A task is a function of the place of the
workspace, its number and a few small values. It writes whole files under names that follow from its
number, then leaves its receipt: it can be killed anywhere, run twice, or run by two machines
together, and the result is the same.
"""

import errno
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import numpy as np

from tokenmill.base.address import is_remote
from tokenmill.base.human import one_line
from tokenmill.errors import PrepareError
from tokenmill.preparation.workspace.receipt_log import Receipt, ReceiptLogs

PLAN = "plan.json"
FAILED = "failed"
"""Name of the input at which a run failed."""
PUBLISHED = "published"
"""Hash of the manifest that is written last."""
CLAIM = "claim"
"""What the bucket is told that the dataset goes to."""
HUB = "hub-commits.json"
"""The commits of repositories on the hub, as they were when the plan was made."""
Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
SizesAndHashes = dict[str, tuple[int, str]]
"""Of files, by name."""


class Workspace(Protocol):
    """Files and receipts of one preparation.

    A file of the whole preparation has a name (`plan.json`), a file of a stage the name of its
    stage as well (`units`, `12.0.tokens`).
    """

    place: str
    """What tasks are given, on any machine, to open it by `workspace_at`."""
    name: str
    """The folder or address of its files, for messages."""
    title: str
    """The folder or address that users know it by."""
    out_dir: Path
    """The folder of this machine that files of the dataset are written to."""
    spool: Path
    """A folder of this machine for files that nobody else needs."""

    @property
    def must_see(self) -> str:
        """A path that every machine must see; empty where there is none."""
        return ""

    def has(self, file: str) -> bool:
        """Return True if the preparation has this file."""

    def read(self, file: str) -> bytes:
        """Return a small file of the preparation, or raise FileNotFoundError."""

    def keep(self, file: str, data: bytes) -> None:
        """Write a small file of the preparation."""

    def drop(self, file: str) -> None:
        """Remove a file, such as `failed` or `lines/12.text`, if it is there."""

    def version(self, file: str) -> Hashable:
        """Return what is another value when the file was written again; or FileNotFoundError."""

    def new(self, stage: str, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a new file of a stage; it is there, whole, when the `with` statement ends."""

    def open(self, stage: str, name: str, *, whole: bool = False) -> IO[bytes]:
        """Open a file of a stage, to read a few parts of it, or the `whole`; FileNotFoundError."""

    def array(
        self, stage: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray:
        """Return a file of a stage as an array, mapped."""

    def load(self, stage: str, name: str, dtype: np.dtype[Any] | str) -> np.ndarray:
        """Return all numbers of a file of a stage, held in memory: (n,)."""
        with self.open(stage, name, whole=True) as file:
            return np.frombuffer(file.read(), dtype)

    def each(self, read: Callable[[Item], Loaded], items: Iterable[Item]) -> Iterator[Loaded]:
        """Yield `read(item)` for all items in order; several at a time, where that is faster."""
        return map(read, items)

    def logs(self, stage: str) -> ReceiptLogs:
        """Return all receipts of a stage; `receipt` also looks at the files that one names."""

    def receipts(self, stage: str, names: Iterable[str]) -> Iterator[Receipt]:
        """Return the receipts of finished tasks in this order, read when they are asked for."""
        logs = self.logs(stage)
        logs.refresh()
        for receipt in logs.in_order(list(names)):
            if receipt is None:
                raise FileNotFoundError(errno.ENOENT, "receipts were removed", self.name)
            yield receipt

    def receipt(self, stage: str, name: str) -> Receipt | None:
        """Return the receipt of a finished task, or None if its files are gone or cut short."""
        receipt = self.logs(stage).get(name)
        return receipt if receipt is not None and self.has_files(stage, receipt) else None

    def has_files(self, stage: str, receipt: Receipt) -> bool:
        """Return True if the files of a task are there, with the sizes in its receipt."""
        return True

    def leave_receipt(
        self, stage: str, name: str, files: list[str] | SizesAndHashes, facts: dict[str, Any]
    ) -> Receipt:
        """Record that a task is done; its files must be in place already."""

    def noting(self, unit: int, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the chunks of a unit; how far it is may be noted, for progress."""
        return iter(chunks)

    def bytes_noted(self, but: Iterable[int]) -> int:
        """Return the bytes read of all units of the running stage but the finished ones."""
        return 0

    def forget_noted(self) -> None:
        """Start to count the bytes of another stage."""
        return

    def lock(self, *, break_lock: bool) -> AbstractContextManager[None]:
        """Hold the workspace, or raise LockedError, which names who holds it."""

    def refuse_locked(self) -> None:
        """Raise LockedError if somebody holds the workspace."""

    def free_bytes(self) -> int | None:
        """Return the room that is left for files; None where there is no limit."""
        return None

    def used_bytes(self, *, with_dataset: bool) -> int:
        """Return the size of all files, and perhaps of the dataset; 0 where there is no limit."""
        return 0

    def holds(self, path: str) -> bool:
        """Return True if this input is a file of the workspace: standard input."""
        return False

    def take_in(self, path: Path) -> str:
        """Keep a file of `spool` as an input; return the path or address to read it from."""
        return str(path)

    def share(self) -> None:
        """Let several machines work here."""
        return

    def take_up(self) -> None:
        """Check what an earlier run left, before the work continues."""
        return

    def clean_temporary(self) -> None:
        """Remove what killed tasks left half written."""
        return

    def is_worth_keeping(self, but: Iterable[str] = ()) -> bool:
        """Return True if more than a moment's work is here, `but` for these files, or is shared."""

    def forget(self) -> None:
        """Take the plan back: then there is nothing to resume."""
        self.drop(PLAN)

    def clear(self, keep: Iterable[str] = (), *, shards: bool = False) -> None:
        """Remove all that was done; but not the lock, nor the files to be kept."""

    def remove(self) -> None:
        """Remove everything."""


def workspace_at(place: str | Path) -> Workspace:
    """Return the workspace of a preparation by its output folder, or by its address."""
    if isinstance(place, str) and is_remote(place):
        from tokenmill.preparation.workspace.work_bucket import open_bucket

        return open_bucket(place)
    from tokenmill.preparation.workspace.work_folder import open_folder

    return open_folder(place)


class ReadOnce(Generic[Loaded]):
    """Reads a file of the workspace at a place: once per process, or when it changed."""

    def __init__(self, file: str, load: Callable[[Workspace, bytes], Loaded]) -> None:
        self._file = file
        self._load = load
        self._known: tuple[Hashable, Loaded] | None = None

    def __call__(self, place: str | Path) -> Loaded:
        workspace = workspace_at(place)
        version = workspace.version(self._file)
        if self._known is None or self._known[0] != version:
            try:
                self._known = version, self._load(workspace, workspace.read(self._file))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise PrepareError(
                    f"{workspace.name}/{self._file} is damaged: {one_line(repr(error)[:200])}",
                    hint=f"remove {workspace.name}, then the same command starts again",
                ) from error
        return self._known[1]

    def remember(self, place: str | Path, value: Loaded) -> None:
        """Note that the file was just written, and reading it would give this value."""
        self._known = workspace_at(place).version(self._file), value


def read_once(
    file: str,
) -> Callable[[Callable[[Workspace, bytes], Loaded]], ReadOnce[Loaded]]:
    """Make a function that reads this file a `ReadOnce`."""
    return lambda load: ReadOnce(file, load)
