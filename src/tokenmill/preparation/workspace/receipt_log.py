"""Receipts of finished tasks: each process adds lines to a log of its own, all read all logs.

    receipts/STAGE/PID-RANDOM.log       HASH NAME JSON, a line for each task that is done

A line is written by one call when the task is done, and begins on a new line whatever is before it:
so a process that is killed can lose the last line of its own log, and no other. HASH is the xxh3-64
of the rest: a line that is cut or changed counts as none. What was read once is remembered by its
place in the logs, and only what was added since is read the next time, so that 300,000 tasks that
are done are looked up in a second and take a few megabytes.
"""

import functools
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import new_file, sync_folder

FOLDER = "receipts"
Receipt = dict[str, Any]
AT_ONCE = 8192
"""Receipts that are in memory at the same time."""
_BLOCK = 1 << 22
_LINE = 2048  # bytes; most are shorter
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_NOWHERE = -1
_OFFSET_BITS = 44  # of a place: which log, then the byte in it


def add_receipt(folder: Path, name: str, receipt: Receipt, *, durable: bool) -> None:
    """Write down that a task is done."""
    path = folder / f"{_own_name(os.getpid())}.log"
    is_new = not path.exists()
    line = b"\n%s\n" % log_line(name, receipt)
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        if os.write(log, line) != len(line):
            raise OSError(28, os.strerror(28), str(path))  # a full disk takes what fits
        if durable:
            os.fsync(log)
    finally:
        os.close(log)
    if durable and is_new:
        sync_folder(folder)


@functools.lru_cache(maxsize=1)
def _own_name(pid: int) -> str:
    """The log of this process, also after a fork."""
    return f"{pid}-{secrets.token_hex(4)}"


def begin_new_log() -> None:
    """What this process adds from now on goes to another file: the old ones were removed."""
    _own_name.cache_clear()


def log_line(name: str, receipt: Receipt) -> bytes:
    """A line of a log, without its end."""
    text = b"%s %s" % (name.encode(), orjson.dumps(receipt))
    return b"%016x %s" % (xxhash.xxh3_64_intdigest(text), text)


class ReceiptLogs:
    """All receipts of one stage, by the name of their task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._forget()

    def _forget(self) -> None:
        self._logs: list[str] = []
        self._read: dict[str, int] = {}
        """How much of each log is known."""
        self._numbered = np.full(0, _NOWHERE, np.int64)
        """Where the receipt of the task is whose name is this number."""
        self._named: dict[str, int] = {}

    def refresh(self) -> None:
        """Look for what was added since."""
        try:
            sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self.folder)}
        except FileNotFoundError:
            sizes = {}
        if any(sizes.get(name, -1) < known for name, known in self._read.items()):
            self._forget()  # logs were removed, or written again
        for name in sorted(sizes):
            if name.endswith(".log") and sizes[name] > self._read.get(name, 0):
                self._read_log(name)

    def has(self, name: str) -> bool:
        """Whether there was such a receipt when the logs were last looked at."""
        return self._place(name) != _NOWHERE

    def get(self, name: str) -> Receipt | None:
        """The receipt of a task, if there is one."""
        if not self.has(name):
            self.refresh()
        return self.read([name])[0]

    def read(self, names: Sequence[str]) -> list[Receipt | None]:
        """The receipts of these tasks; each log is opened once."""
        places = np.array([self._place(name) for name in names], np.int64)
        found: list[Receipt | None] = [None] * len(names)
        order = np.argsort(places, kind="stable")
        order = order[places[order] != _NOWHERE]
        logs = places[order] >> _OFFSET_BITS
        for run in np.split(order, np.flatnonzero(np.diff(logs)) + 1) if len(order) else ():
            offsets = places[run] & ((1 << _OFFSET_BITS) - 1)
            name = self._logs[int(places[run[0]]) >> _OFFSET_BITS]
            for at, receipt in zip(run.tolist(), self._parse(name, offsets.tolist()), strict=True):
                found[at] = receipt
        if any(found[at] is None for at in order.tolist()):
            self._forget()  # somebody removed logs, or changed them
        return found

    def names(self) -> list[str]:
        """The names of all tasks that are done."""
        self.refresh()
        return [*map(str, np.flatnonzero(self._numbered != _NOWHERE).tolist()), *self._named]

    def items(self) -> Iterator[tuple[str, Receipt]]:
        """All receipts with their names."""
        names = self.names()
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            found = zip(some, self.read(some), strict=True)
            yield from ((name, receipt) for name, receipt in found if receipt is not None)

    def remove(self, names: set[str]) -> None:
        """Take receipts back: their tasks will be run again. Nobody else may be at work."""
        kept = [(name, receipt) for name, receipt in self.items() if name not in names]
        old = [self.folder / log for log in self._read]
        begin_new_log()
        with new_file(self.folder / f"{_own_name(os.getpid())}.log") as file:
            for name, receipt in kept:
                file.write(b"%s\n" % log_line(name, receipt))
        for path in old:
            path.unlink(missing_ok=True)
        self._forget()

    def _place(self, name: str) -> int:
        number = _as_number(name)
        if number is None:
            return self._named.get(name, _NOWHERE)
        return int(self._numbered[number]) if number < len(self._numbered) else _NOWHERE

    def _parse(self, log: str, offsets: list[int]) -> Iterator[Receipt | None]:
        """The receipts at these places of a log; None where they are not what they were."""
        try:
            descriptor = os.open(self.folder / log, os.O_RDONLY)
        except FileNotFoundError:
            yield from (None for _ in offsets)
            return
        try:
            for line in _lines_at(descriptor, offsets):
                text = _split(line)
                yield None if text is None else orjson.loads(text[1])
        finally:
            os.close(descriptor)

    def _read_log(self, name: str) -> None:
        """Remember where the lines of a log are that are not known yet; a last one without an end
        is left for the next time."""
        if name not in self._read:
            self._logs.append(name)
        number, start = self._logs.index(name), self._read.get(name, 0)
        with open(self.folder / name, "rb", buffering=0) as file:
            file.seek(start)
            rest = b""
            while block := file.read(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    if line and (text := _split(line)):
                        self._remember(text[0].decode(), number << _OFFSET_BITS | start)
                    start += len(line) + 1
        self._read[name] = start

    def _remember(self, name: str, place: int) -> None:
        number = _as_number(name)
        if number is None:
            self._named[name] = place
            return
        if number >= (known := len(self._numbered)):
            more = np.full(max(1024, known, number + 1 - known), _NOWHERE)
            self._numbered = np.concatenate([self._numbered, more])
        self._numbered[number] = place


def _lines_at(descriptor: int, offsets: list[int]) -> Iterator[bytes]:
    """The lines that begin at these places, which ascend."""
    first, size = offsets[0], offsets[-1] - offsets[0] + _LINE
    data = os.pread(descriptor, size, first) if size <= _BLOCK else b""  # most are neighbours
    for offset in offsets:
        stop = data.find(b"\n", offset - first)
        yield data[offset - first : stop] if stop > 0 else _line_at(descriptor, offset)


def _line_at(descriptor: int, offset: int) -> bytes:
    line = b""
    while b"\n" not in line and (block := os.pread(descriptor, _LINE, offset + len(line))):
        line += block
    return line.partition(b"\n")[0]


def _split(line: bytes) -> tuple[bytes, bytes] | None:
    """Name and JSON of a line; None where the hash is of something else."""
    digest, _, text = line.partition(b" ")
    if digest != b"%016x" % xxhash.xxh3_64_intdigest(text):
        return None
    name, _, receipt = text.partition(b" ")
    return name, receipt


def _as_number(name: str) -> int | None:
    """Tasks of units are called by their number."""
    return int(name) if _NUMBER.fullmatch(name) else None


class StageReceipts(Sequence[Receipt]):
    """The receipts of a stage in the order of its tasks, read when they are asked for."""

    def __init__(self, logs: ReceiptLogs, names: Sequence[str]) -> None:
        self._logs, self._names = logs, names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> Receipt: ...
    @overload
    def __getitem__(self, at: slice) -> list[Receipt]: ...

    def __getitem__(self, at: int | slice) -> Receipt | list[Receipt]:
        names = self._names[at] if isinstance(at, slice) else [self._names[at]]
        found = self._logs.read(names)
        gone = [name for name, receipt in zip(names, found, strict=True) if receipt is None]
        assert not gone, f"{self._logs.folder.name} {gone[0]} has no receipt"
        some = [receipt for receipt in found if receipt is not None]
        return some if isinstance(at, slice) else some[0]

    def __iter__(self) -> Iterator[Receipt]:
        for start in range(0, len(self), AT_ONCE):
            yield from self[start : start + AT_ONCE]
