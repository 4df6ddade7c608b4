"""The folder `.preparation/` inside the output: a workspace on a disk that all machines see.

CONTRIBUTING.md lists its files. A file is written under a temporary name, then renamed.
"""

import functools
import os
import re
import shutil
from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenmill.base.atomic import (
    is_temporary,
    keep,
    make_folder,
    new_file,
    remove,
    sync_file,
)
from tokenmill.base.descriptors import open_descriptor, write_at
from tokenmill.base.hashing import hash_file, regular
from tokenmill.base.lock import hold_lock, refuse_locked
from tokenmill.base.system import boot_id
from tokenmill.errors import FormatError, PrepareError
from tokenmill.preparation.workspace.receipt_log import RECEIPTS, Receipt, ReceiptLogs, add_receipt
from tokenmill.preparation.workspace.workspace import (
    CLAIM,
    PLAN,
    SizesAndHashes,
    Workspace,
)
from tokenmill.shards.manifest import FILE_NAME, FORMAT, PREPARATION_FOLDER

_OUR_MANIFEST = re.compile(rb'\A\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())
WORTH_KEEPING_BYTES = 64 << 20
"""Cleaned text, hashes and ids of a preparation of other settings that are not thrown away."""


class WorkFolder(Workspace):
    """The folder `.preparation/` in the output, on a disk that all machines see."""

    def __init__(self, out_dir: str | Path) -> None:
        self.out_dir = Path(out_dir)
        self.root = self.spool = refuse_link(self.out_dir / PREPARATION_FOLDER)
        self.name = str(self.root)
        self.title = str(self.out_dir)
        self.lock_file = self.root / "lock"
        self._shared_file = self.root / "shared"
        self._under_way = self.root / "under-way"  # eight bytes per unit

    @property
    def place(self) -> str:  # type: ignore[override]
        return str(self.out_dir.absolute())

    @property
    def must_see(self) -> str:
        return os.path.join(self.place, PREPARATION_FOLDER, PLAN)

    def holds(self, path: str) -> bool:
        return os.path.dirname(path) == os.path.abspath(self.root)

    def has(self, file: str) -> bool:
        return os.path.exists(self.root / file)

    def read(self, file: str) -> bytes:
        return (self.root / file).read_bytes()

    def keep(self, file: str, data: bytes) -> None:
        keep(self.root / file, data)

    def drop(self, file: str) -> None:
        (self.root / file).unlink(missing_ok=True)

    def version(self, file: str) -> Hashable:
        path = os.path.join(self.root, file)
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size

    def path(self, stage: str, name: str) -> Path:
        """Path of a file of a stage, such as `units/12.0.tokens`."""
        return self.root / stage / name

    def new(self, stage: str, name: str) -> AbstractContextManager[IO[bytes]]:
        return new_file(self.root / stage / name)

    def open(self, stage: str, name: str, *, whole: bool = False) -> IO[bytes]:
        return open(self.root / stage / name, "rb")

    def array(
        self, stage: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray:
        return np.memmap(self.root / stage / name, dtype, mode="r", shape=shape)

    def logs(self, stage: str) -> ReceiptLogs:
        return _logs_in(f"{self.name}/{RECEIPTS}/{stage}")

    def has_files(self, stage: str, receipt: Receipt, *, hashed: bool = False) -> bool:
        folder = f"{self.name}/{stage}"
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
        """Yield the chunks of a unit; each is noted when the next is asked for."""
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
        try:
            read = np.fromfile(self._under_way, "<u8")
        except FileNotFoundError:
            return 0
        read[[unit for unit in but if unit < len(read)]] = 0
        return int(read.sum())

    def forget_noted(self) -> None:
        self._under_way.unlink(missing_ok=True)

    @contextmanager
    def lock(self, *, break_lock: bool) -> Iterator[None]:
        make_folder(self.root)
        with hold_lock(self.lock_file, break_lock=break_lock):
            yield

    def refuse_locked(self) -> None:
        refuse_locked(self.lock_file)

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self.root).free

    def used_bytes(self, *, with_dataset: bool) -> int:
        folder = self.out_dir if with_dataset else self.root
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def share(self) -> None:
        """Let several machines work here: from now on, receipts are left for synced files only.

        What one wrote before is checked: later, nobody can know whether one of them stopped.
        """
        if not self._shared_file.exists():
            self._distrust_after_reboot()
            keep(self._shared_file, b"")

    def take_up(self) -> None:
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
                if not self.has_files(folder.name, receipt, hashed=True)
            }
            if wrong:
                logs.remove(wrong)
        stamp.write_bytes(this_boot)

    def clean_temporary(self) -> None:
        for folder, _, names in os.walk(self.out_dir):
            for name in names:
                if name.endswith(".tmp") and is_temporary(name):
                    Path(folder, name).unlink(missing_ok=True)

    def is_worth_keeping(self, but: Iterable[str] = ()) -> bool:
        if self._shared_file.exists() or (self.root / "parts.json").exists():
            return True  # and after joining, there may be shards
        kept = {self.root / name for name in but}
        files = [path for path in self.root.rglob("*") if path.is_file() and path not in kept]
        return sum(path.stat().st_size for path in files) >= WORTH_KEEPING_BYTES

    def clear(self, keep: Iterable[str] = (), *, shards: bool = False) -> None:
        _logs_in.cache_clear()
        kept = {self.lock_file.name, CLAIM, *keep}
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
def open_folder(out_dir: str | Path) -> WorkFolder:
    """Return the work folder in an output folder: the same one in a process."""
    return WorkFolder(out_dir)


@functools.lru_cache(maxsize=32)
def _logs_in(folder: str) -> ReceiptLogs:
    return ReceiptLogs(Path(folder))
