"""The folder `.preparation/` inside the output: everything that is needed to resume.

CONTRIBUTING.md lists its files. A task is a function of the output folder, its number and a few
small values. It writes under a temporary name, renames, then leaves its receipt: it can be killed
anywhere, run twice, or run by two machines together, and the result is the same.
"""

import functools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from tokenmill.base.atomic import is_temporary, keep, remove, sync_file
from tokenmill.base.descriptors import open_descriptor, write_at
from tokenmill.base.hashing import hash_file, regular
from tokenmill.base.human import one_line
from tokenmill.base.system import boot_id
from tokenmill.errors import FormatError, PrepareError
from tokenmill.preparation.workspace.receipt_log import RECEIPTS, Receipt, ReceiptLogs, add_receipt
from tokenmill.shards.manifest import FILE_NAME, FORMAT, PREPARATION_FOLDER

STANDARD_INPUT = "standard-input"
_OUR_MANIFEST = re.compile(rb'\A\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())
WORTH_KEEPING_BYTES = 64 << 20
"""Cleaned text, hashes and ids of a preparation of other settings that are not thrown away."""
Loaded = TypeVar("Loaded")
SizesAndHashes = dict[str, tuple[int, str]]
"""Of files, by name."""


class Workspace:
    """Paths and receipts of one preparation."""

    def __init__(self, out_dir: str | Path) -> None:
        self.out_dir = Path(out_dir)
        self.root = refuse_link(self.out_dir / PREPARATION_FOLDER)
        self.plan_file = self.root / "plan.json"
        self.lock_file = self.root / "lock"
        self.failed_file = self.root / "failed"
        self.published_file = self.root / "published"
        self.claim_file = self.root / "claim"
        self.hub_file = self.root / "hub-commits.json"
        self._shared_file = self.root / "shared"
        self._under_way = self.root / "under-way"  # eight bytes per unit

    def holds(self, path: str) -> bool:
        """Return True if this input is a file in the workspace: standard input."""
        return os.path.dirname(path) == os.path.abspath(self.root)

    def path(self, stage: str, name: str) -> Path:
        """Path of a file of a stage, such as `units/12.0.tokens`."""
        return self.root / stage / name

    def logs(self, stage: str) -> ReceiptLogs:
        """All receipts of a stage; `receipt` also looks at the files that one names."""
        return _logs_in(str(self.root / RECEIPTS / stage))

    def receipts(self, stage: str, names: Iterable[str]) -> Iterator[Receipt]:
        """Return the receipts of finished tasks in this order, read when they are asked for."""
        logs = self.logs(stage)
        logs.refresh()
        return logs.in_order(list(names))

    def receipt(self, stage: str, name: str) -> Receipt | None:
        """Return the receipt of a finished task, or None if its files are gone or cut short."""
        receipt = self.logs(stage).get(name)
        return receipt if receipt is not None and self._has_files(stage, receipt) else None

    def _has_files(self, stage: str, receipt: Receipt, *, hashed: bool = False) -> bool:
        """Return True if the files of a task have the sizes in its receipt, and the hashes."""
        folder = str(self.root / stage)
        try:
            for file, (size, known) in receipt["files"].items():
                path = f"{folder}/{file}"
                if os.stat(path).st_size != size or (hashed and hash_file(path) != known):
                    return False
        except FileNotFoundError:
            return False
        return True

    def leave_receipt(
        self, stage: str, name: str, files: list[str] | SizesAndHashes, facts: dict[str, Any]
    ) -> Receipt:
        """Record that a task is done; its files must be in place already."""
        self.path(stage, "").mkdir(parents=True, exist_ok=True)  # files may be named through it
        if isinstance(files, list):
            paths = {file: self.path(stage, file) for file in files}
            files = {file: (path.stat().st_size, hash_file(path)) for file, path in paths.items()}
        receipt = {**facts, "files": files}
        if is_shared := self._shared_file.exists():
            for file in files:
                sync_file(self.path(stage, file))
        add_receipt(self.root / RECEIPTS / stage, name, receipt, durable=is_shared)
        return receipt

    def noting(self, unit: int, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the chunks of a unit; each is noted, for progress, when the next is asked for."""
        num_bytes = 0
        file = open_descriptor(self._under_way, os.O_WRONLY | os.O_CREAT)
        try:
            for chunk in chunks:
                yield chunk
                num_bytes += chunk.bytes_in
                write_at(file, num_bytes.to_bytes(8, "little"), 8 * unit)
        finally:
            os.close(file)

    def bytes_noted(self, but: Iterable[int]) -> int:
        """Return the bytes read of all units of the running stage but the finished ones."""
        try:
            read = np.fromfile(self._under_way, "<u8")
        except FileNotFoundError:
            return 0
        read[[unit for unit in but if unit < len(read)]] = 0
        return int(read.sum())

    def forget_noted(self) -> None:
        """Start to count the bytes of another stage."""
        self._under_way.unlink(missing_ok=True)

    def share(self) -> None:
        """Let several machines work here: from now on, receipts are left for synced files only.

        What one wrote before is checked: later, nobody can know whether one of them stopped.
        """
        if not self._shared_file.exists():
            self._distrust_after_reboot()
            keep(self._shared_file, b"")

    def take_up(self) -> None:
        """Check what an earlier run left, before the work continues."""
        self.clean_temporary()
        self._distrust_after_reboot()

    def _distrust_after_reboot(self) -> None:
        """Take back receipts whose files are not what they say, if the machine was down since.

        Files here are not synced one by one, which would cost as much as encoding them: a killed
        process loses nothing that was written, only a machine that stops does.
        """
        stamp = self.root / "boot"
        this_boot = (boot_id() or f"unknown {os.getpid()}").encode()  # unknown: files are checked
        is_same_boot = stamp.exists() and stamp.read_bytes() == this_boot
        if is_same_boot or self._shared_file.exists():
            return
        for folder in self.root.glob(f"{RECEIPTS}/*"):
            logs = self.logs(folder.name)
            wrong = {
                name
                for name, receipt in logs.items()
                if not self._has_files(folder.name, receipt, hashed=True)
            }
            if wrong:
                logs.remove(wrong)
        stamp.write_bytes(this_boot)

    def clean_temporary(self) -> None:
        """Remove what killed tasks left half written."""
        for path in self.out_dir.rglob(".*.tmp"):
            if is_temporary(path.name):
                path.unlink(missing_ok=True)

    def is_worth_keeping(self, but: Iterable[str] = ()) -> bool:
        """Return True if more than a moment's work is here, `but` for these files, or is shared."""
        if self._shared_file.exists() or (self.root / "parts.json").exists():
            return True  # and after joining, there may be shards
        kept = {self.root / name for name in but}
        files = [path for path in self.root.rglob("*") if path.is_file() and path not in kept]
        return sum(path.stat().st_size for path in files) >= WORTH_KEEPING_BYTES

    def forget(self) -> None:
        """Take the plan back: then there is nothing to resume."""
        self.plan_file.unlink(missing_ok=True)

    def clear(self, keep: Iterable[str] = (), *, shards: bool = False) -> None:
        """Remove all that was done; but not the lock, nor the files to be kept."""
        _logs_in.cache_clear()
        kept = {self.lock_file.name, self.claim_file.name, *keep}
        for path in self.root.iterdir():
            if path.name not in kept:
                remove(path)
        for path in self.out_dir.iterdir() if shards else ():
            if path != self.root:
                remove(path)

    def remove(self) -> None:
        """Remove everything. The plan goes last: with it, the rest is known to be waste."""
        with suppress(FileNotFoundError):
            for path in self.root.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
        self.forget()
        shutil.rmtree(self.root, ignore_errors=True)


def refuse_link(folder: Path) -> Path:
    """Return a folder whose contents tokenmill removes; a link there may lead to anything."""
    if folder.is_symlink():
        raise PrepareError(
            f"{folder} is a link to {os.readlink(folder)}, and what is in this folder is removed "
            "when the work is done",
            hint="remove the link; to work on another disk, write the output there",
        )
    return folder


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Return True if tokenmill made a dataset here, even a damaged one, or started to.

    The name of the manifest alone proves nothing: another program may use it as well.
    """
    if os.path.isdir(os.path.join(folder, PREPARATION_FOLDER)):
        return True
    try:
        with open(os.path.join(folder, FILE_NAME), "rb", opener=regular) as file:
            return _OUR_MANIFEST.match(file.read(4096)) is not None
    except (OSError, FormatError):
        return False


@functools.lru_cache(maxsize=32)
def _logs_in(folder: str) -> ReceiptLogs:
    return ReceiptLogs(Path(folder))


class ReadOnce(Generic[Loaded]):
    """Reads a file of the workspace of an output folder: once per process, or when it changed."""

    def __init__(self, file: str, load: Callable[[Path], Loaded]) -> None:
        self._file = file
        self._load = load
        self._known: tuple[tuple[int, ...], Loaded] | None = None

    def __call__(self, out_dir: str | Path) -> Loaded:
        path = Path(out_dir, PREPARATION_FOLDER, self._file)
        version = _version(path)
        if self._known is None or self._known[0] != version:
            try:
                self._known = version, self._load(path)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise PrepareError(
                    f"{path} is damaged: {one_line(repr(error)[:200])}",
                    hint=f"remove {path.parent}, then the same command starts again",
                ) from error
        return self._known[1]

    def remember(self, out_dir: str | Path, value: Loaded) -> None:
        """Note that the file was just written, and reading it would give this value."""
        self._known = _version(Path(out_dir, PREPARATION_FOLDER, self._file)), value


def _version(path: Path) -> tuple[int, ...]:
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def read_once(file: str) -> Callable[[Callable[[Path], Loaded]], ReadOnce[Loaded]]:
    """Make a function that reads this file a `ReadOnce`."""
    return lambda load: ReadOnce(file, load)
