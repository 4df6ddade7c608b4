"""Receipts of finished tasks: each process appends to its own log, and everyone reads all logs.

    receipts/STAGE/PID-RANDOM.log       HASH NAME JSON, one line per finished task

One call writes a line, and each starts on a new line whatever is before it: so a killed process can
lose the last line of its own log, and no other. HASH is the xxh3-64 of the rest: a line that is cut
or changed counts as none. Only positions of lines are remembered, and only what was added since is
read the next time: 300,000 finished tasks are looked up in a second, and take 50 MB.
"""

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import xxhash

from tokenmill.base.atomic import new_file, sync_descriptor, sync_folder
from tokenmill.base.descriptors import open_descriptor

RECEIPTS = "receipts"
Receipt = dict[str, Any]
AT_ONCE = 8192
"""Receipts that are in memory at the same time."""
_PROCESS = secrets.token_hex(4)


def add_receipt(folder: Path, name: str, receipt: Receipt, *, durable: bool) -> None:
    """Write down that a task is done."""
    path = folder / f"{os.getpid()}-{_PROCESS}.log"
    line = b"\n%s\n" % log_line(name, receipt)
    folder.mkdir(parents=True, exist_ok=True)
    log = open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        if os.write(log, line) != len(line):
            raise OSError(28, os.strerror(28), str(path))  # a full disk takes what fits
        if durable:
            sync_descriptor(log, path)
            sync_folder(folder)
    finally:
        os.close(log)


def log_line(name: str, receipt: Receipt) -> bytes:
    """Return a line of a log, without its end."""
    text = b"%s %s" % (name.encode(), orjson.dumps(receipt))
    return b"%016x %s" % (xxhash.xxh3_64_intdigest(text), text)


def _parse(line: bytes) -> tuple[str, bytes] | None:
    """Return name and JSON of a line; None where the hash is of something else."""
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if digest != b"%016x" % xxhash.xxh3_64_intdigest(text):
        return None
    name, _, receipt = text.partition(b" ")
    return name.decode(), receipt


class ReceiptLogs:
    """All receipts of one stage, by the name of their task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._forget()

    def _forget(self) -> None:
        self._bytes_read: dict[str, int] = {}  # by log
        self._lines: dict[str, tuple[str, int]] = {}  # log and offset of the line, by task

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
                if parsed := _parse(line):
                    self._lines[parsed[0]] = log, offset
                offset += len(line)
        self._bytes_read[log] = offset

    def has(self, name: str) -> bool:
        """Return True if the receipt was there when the logs were last looked at."""
        return name in self._lines

    def get(self, name: str) -> Receipt | None:
        if not self.has(name):
            self.refresh()
        return self.read([name]).get(name)

    def read(self, names: Sequence[str]) -> dict[str, Receipt]:
        """Return the receipts of these tasks; each log is opened once, and read in its order."""
        by_log = defaultdict[str, list[int]](list)
        for name in filter(self.has, names):
            log, offset = self._lines[name]
            by_log[log].append(offset)
        receipts: dict[str, Receipt] = {}
        for log, offsets in by_log.items():
            with suppress(FileNotFoundError), open(self.folder / log, "rb") as file:
                for offset in sorted(offsets):
                    file.seek(offset)
                    if parsed := _parse(file.readline()):
                        receipts[parsed[0]] = orjson.loads(parsed[1])
        if len(receipts) < sum(map(len, by_log.values())):
            self._forget()  # somebody removed logs, or changed them
        return receipts

    def in_order(self, names: Sequence[str]) -> Iterator[Receipt | None]:
        """Yield the receipts of these tasks in this order; None where a log is gone by now."""
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            yield from map(self.read(some).get, some)

    def items(self) -> Iterator[tuple[str, Receipt]]:
        self.refresh()
        names = list(self._lines)
        for start in range(0, len(names), AT_ONCE):
            yield from self.read(names[start : start + AT_ONCE]).items()

    def remove(self, names: set[str]) -> None:
        """Take receipts back: their tasks will be run again. Nobody else may be at work."""
        with new_file(self.folder / f"{secrets.token_hex(8)}.log") as file:
            for name, receipt in self.items():
                if name not in names:
                    file.write(b"%s\n" % log_line(name, receipt))
        for log in self._bytes_read:
            (self.folder / log).unlink(missing_ok=True)
        self._forget()
