"""Receipts of finished tasks: each process appends to its own log, and everyone reads all logs.

    receipts/STAGE/PID-RANDOM.log       HASH NAME JSON, one line per finished task

One call writes a line, and each line starts on a new line whatever is before it: so a process that
is killed can lose the last line of its own log, and no other. HASH is the xxh3-64 of the rest: a
line that is cut or changed counts as none. Only the positions of lines are remembered, and only
what was added since is read the next time: 300,000 finished tasks are looked up in a second, and
take 50 MB.
"""

import functools
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, overload

import orjson
import xxhash

from tokenmill.base.atomic import new_file, sync_folder

RECEIPTS = "receipts"
Receipt = dict[str, Any]
AT_ONCE = 8192
"""Receipts that are in memory at the same time."""


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
    """Name of the log of this process, also after a fork."""
    return f"{pid}-{secrets.token_hex(4)}"


def begin_new_log() -> None:
    """Let this process write to another file from now on: the old ones were removed."""
    _own_name.cache_clear()


def log_line(name: str, receipt: Receipt) -> bytes:
    """Return a line of a log, without its end."""
    text = b"%s %s" % (name.encode(), orjson.dumps(receipt))
    return b"%016x %s" % (xxhash.xxh3_64_intdigest(text), text)


class _Line(NamedTuple):
    """Position of a line."""

    log: str
    offset: int


class ReceiptLogs:
    """All receipts of one stage, by the name of their task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._forget()

    def _forget(self) -> None:
        self._bytes_read: dict[str, int] = {}  # by log
        self._lines: dict[str, _Line] = {}  # by task

    def refresh(self) -> None:
        """Look for receipts that were added since."""
        try:
            sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self.folder)}
        except FileNotFoundError:
            sizes = {}
        if any(sizes.get(log, -1) < num_bytes for log, num_bytes in self._bytes_read.items()):
            self._forget()  # logs were removed, or written again
        for log in sorted(sizes):
            if log.endswith(".log") and sizes[log] > self._bytes_read.get(log, 0):
                self._read_log(log)

    def _read_log(self, log: str) -> None:
        """Remember the lines that are new; a last one without an end is left for the next time."""
        offset = self._bytes_read.get(log, 0)
        with open(self.folder / log, "rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if parsed := _split(line):
                    self._lines[parsed[0].decode()] = _Line(log, offset)
                offset += len(line)
        self._bytes_read[log] = offset

    def has(self, name: str) -> bool:
        """Return True if the receipt was there when the logs were last looked at."""
        return name in self._lines

    def get(self, name: str) -> Receipt | None:
        """Return the receipt of a task, if there is one."""
        if not self.has(name):
            self.refresh()
        return self.read([name])[0]

    def read(self, names: Sequence[str]) -> list[Receipt | None]:
        """Return the receipts of these tasks; each log is opened once, and read in its order."""
        by_log = defaultdict[str, list[tuple[int, str]]](list)
        for name in names:
            if line := self._lines.get(name):
                by_log[line.log].append((line.offset, name))
        receipts: dict[str, Receipt] = {}
        for log, lines in by_log.items():
            with suppress(FileNotFoundError), open(self.folder / log, "rb") as file:
                for offset, name in sorted(lines):
                    file.seek(offset)
                    if parsed := _split(file.readline()):
                        receipts[name] = orjson.loads(parsed[1])
        if any(self.has(name) and name not in receipts for name in names):
            self._forget()  # somebody removed logs, or changed them
        return [receipts.get(name) for name in names]

    def items(self) -> Iterator[tuple[str, Receipt]]:
        """Yield all receipts with their names."""
        self.refresh()
        names = list(self._lines)
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            for name, receipt in zip(some, self.read(some), strict=True):
                if receipt is not None:
                    yield name, receipt

    def remove(self, names: set[str]) -> None:
        """Take receipts back: their tasks will be run again. Nobody else may be at work."""
        kept = [(name, receipt) for name, receipt in self.items() if name not in names]
        old = [self.folder / log for log in self._bytes_read]
        begin_new_log()
        with new_file(self.folder / f"{_own_name(os.getpid())}.log") as file:
            for name, receipt in kept:
                file.write(b"%s\n" % log_line(name, receipt))
        for path in old:
            path.unlink(missing_ok=True)
        self._forget()


def _split(line: bytes) -> tuple[bytes, bytes] | None:
    """Return name and JSON of a line; None where the hash is of something else."""
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if digest != b"%016x" % xxhash.xxh3_64_intdigest(text):
        return None
    name, _, receipt = text.partition(b" ")
    return name, receipt


class StageReceipts(Sequence[Receipt]):
    """The receipts of a stage in the order of its tasks, read when they are asked for."""

    def __init__(self, logs: ReceiptLogs, names: Sequence[str]) -> None:
        self._logs = logs
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> Receipt: ...
    @overload
    def __getitem__(self, at: slice) -> list[Receipt]: ...

    def __getitem__(self, at: int | slice) -> Receipt | list[Receipt]:
        if isinstance(at, slice):
            return self._read(self._names[at])
        return self._read([self._names[at]])[0]

    def __iter__(self) -> Iterator[Receipt]:
        for start in range(0, len(self), AT_ONCE):
            yield from self[start : start + AT_ONCE]

    def _read(self, names: Sequence[str]) -> list[Receipt]:
        receipts = []
        for name, receipt in zip(names, self._logs.read(names), strict=True):
            assert receipt is not None, f"{self._logs.folder.name} {name} has no receipt"
            receipts.append(receipt)
        return receipts
