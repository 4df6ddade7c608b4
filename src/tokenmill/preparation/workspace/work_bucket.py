"""A workspace in a bucket, for machines that share nothing else.

    s3://bucket/tmp/job/plan.json                files of the whole preparation
    s3://bucket/tmp/job/units/12.0.tokens        files of stages, written once
    s3://bucket/tmp/job/receipts/units/ID.0.log  what the process ID finished: some 2,000 receipts
    s3://bucket/tmp/job/lease                    who plans, drives or finishes it (lease.py)

A task writes into `scratch`, a folder of its machine, and uploads a file when it is whole, under a
name that follows from its number: of two that did the same, the first one writes. What is read as a
whole is kept in scratch as long as there is room. Objects cannot be appended to: a process writes
its newest log again, until that has `LOG_BYTES`, before it hands over results (`settle`). Losing
scratch is harmless.
"""

import math
import os
import posixpath
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import xxhash

from tokenmill.base.address import check_address, join, split
from tokenmill.base.atomic import new_file
from tokenmill.base.descriptors import lock, rename, try_lock
from tokenmill.base.hashing import hash_file
from tokenmill.base.human import parse_bytes
from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.executors.executor import before_results
from tokenmill.preparation.workspace.lease import hold_lease, refuse_leased
from tokenmill.preparation.workspace.receipt_log import (
    RECEIPTS,
    Receipt,
    ReceiptLogs,
    log_line,
)
from tokenmill.preparation.workspace.workspace import (
    CLAIM,
    PLAN,
    Item,
    Loaded,
    SizesAndHashes,
    Workspace,
)
from tokenmill.stores import objects
from tokenmill.stores.object_file import TailFile
from tokenmill.stores.store_requests import ObjectStat

LEASE = "lease"
ALIVE = "alive"
LOG_BYTES = 1 << 20
AT_ONCE = 16
"""Requests in progress at the same time, in a process that reads many files."""
BLOCK_BYTES = 8 << 20
MAX_SCRATCH = 8 << 30
_MAX_SMALL_BYTES = 1 << 30  # plan, layout, list of parts


class BucketPlace(str):
    """The address of a workspace, and what a task must know besides: it is sent to machines."""

    scratch: str
    """Folder on a disk of each machine."""
    max_scratch: int
    """Bytes that files which were fetched may take there."""
    run: str
    """Another one in each run: what was read before is read again."""

    @classmethod
    def of(
        cls,
        address: str,
        scratch: str | os.PathLike[str] | None = None,
        max_scratch: int | str | None = None,
    ) -> "BucketPlace":
        place = cls(check_address(address))
        place.scratch = os.path.abspath(scratch or tempfile.gettempdir())
        place.max_scratch = parse_bytes(max_scratch) if max_scratch else MAX_SCRATCH
        place.run = secrets.token_hex(8)
        return place


_opened: dict[str, "WorkBucket"] = {}


def open_bucket(place: str) -> "WorkBucket":
    """Return the workspace at an address: the same one in a process, as long as one run lasts."""
    known = _opened.get(place)
    if not isinstance(place, BucketPlace):
        place = BucketPlace.of(place) if known is None else known.place
    if known is None or known.place.run != place.run:
        if known is not None:
            known.close()
        known = _opened[str(place)] = WorkBucket(place)
    return known


class WorkBucket(Workspace):
    """Files below an address; see `Workspace`."""

    place: BucketPlace

    def __init__(self, place: BucketPlace) -> None:
        self.place = place
        self.address = str(place)
        self.name = self.title = self.address
        name = xxhash.xxh3_64_hexdigest(self.address.encode())
        self._folder = folder = Path(place.scratch, f"tokenmill-{name}")
        self._own = folder / f"process-{secrets.token_hex(8)}"
        self.out_dir = self._own / "out"
        self.spool = self._own / "spool"
        for needed in (self.out_dir, self.spool):
            needed.mkdir(parents=True, exist_ok=True)
        self._alive = open(self._own / ALIVE, "wb")  # noqa: SIM115 - locked as long as we live
        lock(self._alive.fileno())
        _remove_dead(folder)
        self._versions: dict[str, str] = {}  # ETags
        self._logs: dict[str, BucketLogs] = {}
        self._written: SizesAndHashes = {}  # files of the task that runs
        self._since: list[str] = []  # files written since it was seen that there is a plan
        before_results[self.address] = self.settle

    def close(self) -> None:
        """Give up what this process has in scratch."""
        before_results.pop(self.address, None)
        self._alive.close()
        shutil.rmtree(self._own, ignore_errors=True)

    # Files.

    def _object(self, file: str) -> str:
        return join(self.address, posixpath.normpath(file))

    def has(self, file: str) -> bool:
        return objects.find(self._object(file)) is not None

    def read(self, file: str) -> bytes:
        data = objects.read_all(self._object(file), at_most=_MAX_SMALL_BYTES)
        if data is None:
            raise FileNotFoundError(2, os.strerror(2), self._object(file))
        return data

    def keep(self, file: str, data: bytes) -> None:
        self._versions.pop(file, None)
        objects.put(self._object(file), data)
        self._since.append(file)
        self._written[posixpath.normpath(file)] = len(data), xxhash.xxh3_128_hexdigest(data)

    def drop(self, file: str) -> None:
        self._versions.pop(file, None)
        objects.delete(self._object(file))

    def version(self, file: str) -> Hashable:
        if file not in self._versions:
            found = objects.find(self._object(file))
            if found is None:
                raise FileNotFoundError(2, os.strerror(2), self._object(file))
            self._versions[file] = found.etag
        return self.place.run, self._versions[file]  # what was read before has a closed workspace

    @contextmanager
    def new(self, stage: str, name: str) -> Iterator[IO[bytes]]:
        path = self._own / "new" / stage / name
        with new_file(path) as file:
            yield file
        size = path.stat().st_size
        file_name = posixpath.normpath(f"{stage}/{name}")
        digest = hash_file(path)
        objects.upload_once(path, self._object(file_name))  # or it is of a run with other settings
        self._written[file_name] = size, digest
        self._since.append(file_name)
        if size > self.place.max_scratch:
            path.unlink()
        else:
            self._make_room(size)
            rename(path, self._cached(file_name))

    def open(self, stage: str, name: str, *, whole: bool = False) -> IO[bytes]:
        if whole:
            return self._fetch(f"{stage}/{name}", None)
        return TailFile(self._object(f"{stage}/{name}"))  # type: ignore[return-value]

    def array(
        self, stage: str, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray:
        with self._fetch(f"{stage}/{name}", math.prod(shape) * dtype.itemsize) as file:
            return np.memmap(file, dtype, mode="r", shape=shape)

    def each(self, read: Callable[[Item], Loaded], items: Iterable[Item]) -> Iterator[Loaded]:
        waiting: deque[Future[Loaded]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for item in items:
                waiting.append(threads.submit(read, item))
                if len(waiting) > 2 * AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    # Scratch.

    @cached_property
    def _cache(self) -> Path:
        """The folder for files of this plan, not of one that was here before."""
        self.version(PLAN)
        name = f"fetched-{xxhash.xxh3_64_hexdigest(self._versions[PLAN].encode())}"
        for old in self._folder.glob("fetched-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
        (self._folder / name).mkdir(exist_ok=True)
        return self._folder / name

    def _cached(self, file: str) -> Path:
        return self._cache / file.replace("/", "+")

    def _fetch(self, file: str, size: int | None) -> IO[bytes]:
        """Return a file from scratch, or fetch it first; others may make room at any time."""
        path = self._cached(posixpath.normpath(file))
        while True:
            with suppress(FileNotFoundError):
                opened = open(path, "rb")  # noqa: SIM115
                if size in (None, os.fstat(opened.fileno()).st_size):
                    with suppress(FileNotFoundError):
                        os.utime(path)  # the file that was used last is removed last
                    return opened
                opened.close()
            address = self._object(file)
            known = ObjectStat(size, "") if size is not None else objects.find(address)
            if known is None:
                raise FileNotFoundError(2, os.strerror(2), address)
            size = known.size
            self._make_room(size)
            with new_file(path) as fetched:
                read = partial(_block, address, known)
                for data in self.each(read, range(0, size, BLOCK_BYTES)):
                    fetched.write(data)

    def _make_room(self, size: int) -> None:
        """Remove files that were fetched, the one used longest ago first."""
        if size > self.place.max_scratch:
            raise PrepareError(
                f"a file of {size:,} bytes is needed in {self.place.scratch}, but max_scratch is "
                f"{self.place.max_scratch:,}",
                hint="allow more: run=Run(max_scratch=...)",
            )
        files = []
        for entry in os.scandir(self._cache):
            with suppress(FileNotFoundError):
                about = entry.stat()
                files.append((about.st_mtime_ns, about.st_size, entry.path))
        total = size + sum(num_bytes for _, num_bytes, _ in files)
        for _, num_bytes, path in sorted(files):
            if total <= self.place.max_scratch:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= num_bytes

    # Receipts.

    def logs(self, stage: str) -> "BucketLogs":
        if stage not in self._logs:
            folder = self._own / RECEIPTS / stage
            self._logs[stage] = BucketLogs(folder, join(self.address, f"{RECEIPTS}/{stage}"))
        return self._logs[stage]

    def leave_receipt(
        self, stage: str, name: str, files: list[str] | SizesAndHashes, facts: dict[str, Any]
    ) -> Receipt:
        if isinstance(files, list):
            written = {file: posixpath.normpath(f"{stage}/{file}") for file in files}
            files = {file: self._written[known] for file, known in written.items()}
        self._written.clear()
        receipt = {**facts, "files": files}
        self.logs(stage).add(name, receipt)
        return receipt

    def settle(self) -> None:
        """Upload the receipts of this process. What was written without a plan is removed."""
        new = [log for logs in list(self._logs.values()) for log in logs.settle()]
        new += map(self._object, self._since)
        if new and objects.find(self._object(PLAN)) is None:
            objects.delete_all(new)
        self._since.clear()

    # Life.

    @contextmanager
    def lock(self, *, break_lock: bool) -> Iterator[None]:
        records, folders = objects.list_folder(self.address)
        names = {key.rpartition("/")[2] for key in (*folders, *(r.key for r in records))}
        if names and not names & {PLAN, CLAIM, LEASE}:
            raise SettingsMismatchError(
                f"{self.address} holds {len(names)} objects or folders but no preparation (such as "
                f"{min(names)!r})",
                hint="name a new prefix: what is below it is removed when the work is done",
            )
        with hold_lease(self._object(LEASE), self.address, break_lock=break_lock):
            yield

    def refuse_locked(self) -> None:
        refuse_leased(self._object(LEASE), self.address)

    def holds(self, path: str) -> bool:
        return path.startswith(f"{self.address}/")

    def take_in(self, path: Path) -> str:
        address = self._object(path.name)  # it is named by its content
        objects.upload_once(path, address)
        path.unlink()
        return address

    def is_worth_keeping(self, but: Iterable[str] = ()) -> bool:
        return bool(objects.list_records(self._object(RECEIPTS)))

    def clear(self, keep: Iterable[str] = (), *, shards: bool = False) -> None:
        kept = {self._object(file) for file in (LEASE, CLAIM, *keep)}
        self._remove_objects(kept)

    def remove(self) -> None:
        kept = {self._object(file) for file in (LEASE, CLAIM)}
        self._remove_objects(kept)
        objects.delete(self._object(CLAIM))
        self.close()
        _opened.pop(self.address, None)
        for fetched in self._folder.glob("fetched-*"):
            shutil.rmtree(fetched, ignore_errors=True)

    def _remove_objects(self, kept: set[str]) -> None:
        """Remove all but these; the plan goes first: what comes later is known to be waste."""
        self._versions.clear()
        for logs in self._logs.values():
            logs.close()
        self._logs.clear()
        self._since.clear()
        if self._object(PLAN) not in kept:
            objects.delete(self._object(PLAN))
        below = (a for a in objects.list_below(self.address) if a not in kept)
        objects.delete_all(below)


class BucketLogs(ReceiptLogs):
    """All receipts of one stage: its objects, copied to scratch, and read there."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self._address = address
        self._id = secrets.token_hex(8)
        self._sequence = 0
        self._settled = 0  # bytes of the newest log of this process that are uploaded
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def _newest(self) -> Path:
        return self.folder / f"{self._id}.{self._sequence}.log"

    def add(self, name: str, receipt: Receipt) -> None:
        """Write down that a task is done; `settle` tells others."""
        with open(self._newest, "ab") as log:
            log.write(b"%s\n" % log_line(name, receipt))

    def settle(self) -> list[str]:
        """Upload what is new, and return the address of the object."""
        path = self._newest
        if not path.exists() or path.stat().st_size == self._settled:
            return []
        data = path.read_bytes()
        address = join(self._address, path.name)
        objects.put(address, data)
        self._settled = len(data)
        if len(data) >= LOG_BYTES:
            self._sequence += 1
            self._settled = 0
        return [address]

    def refresh(self) -> None:
        self.settle()
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self.folder)}
        prefix = len(split(self._address).key) + 1
        listed = {record.key[prefix:]: record for record in objects.list_records(self._address)}
        for gone in sizes.keys() - listed.keys():
            (self.folder / gone).unlink(missing_ok=True)
        newer = [name for name, known in listed.items() if known.size > sizes.get(name, 0)]
        with ThreadPoolExecutor(4 * AT_ONCE) as threads:
            for _ in threads.map(self._fetch, newer):
                pass
        super().refresh()

    def _fetch(self, name: str) -> None:
        data = objects.read_all(join(self._address, name), at_most=_MAX_SMALL_BYTES)
        if data is not None:
            with new_file(self.folder / name) as file:
                file.write(data)

    def remove(self, names: set[str]) -> None:
        self.refresh()
        known = list(self._bytes_read)
        super().remove(names)
        for path in self.folder.iterdir():
            objects.put(join(self._address, path.name), path.read_bytes())
        objects.delete_all(join(self._address, log) for log in known)
        self._id = secrets.token_hex(8)

    def close(self) -> None:
        """Forget all receipts."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _block(address: str, known: ObjectStat, start: int) -> bytes:
    return objects.read(address, start, min(start + BLOCK_BYTES, known.size), known)


def _remove_dead(folder: Path) -> None:
    """Remove what processes of this machine left that were killed."""
    for alive in folder.glob(f"process-*/{ALIVE}"):
        with suppress(OSError), open(alive, "r+b") as file:
            if try_lock(file.fileno()):
                shutil.rmtree(alive.parent, ignore_errors=True)
