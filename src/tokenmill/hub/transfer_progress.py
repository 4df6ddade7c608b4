"""How far a transfer is: bars on a terminal, a line a file in a log, or nothing.

All of it goes to stderr; stdout is for results.
"""

import sys
import threading
from types import TracebackType
from typing import Any, Self

from tokenmill.base.human import human_bytes, plural
from tokenmill.hub.remote_files import RemoteFile


class Progress:
    """Told what happens; this one says nothing."""

    def begin(self, files: list[RemoteFile]) -> None:
        """These files are about to be fetched."""

    def start(self, file: RemoteFile, at: int) -> None:
        """A file starts, or starts again, from byte `at`."""

    def advance(self, file: RemoteFile, num_bytes: int) -> None:
        """More bytes of a file have arrived."""

    def done(self, file: RemoteFile) -> None:
        """A file has arrived whole and right."""

    def note(self, text: str) -> None:
        """Something the user may want to know."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class Lines(Progress):
    """One line a file, for logs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_done = self._num_files = 0

    def begin(self, files: list[RemoteFile]) -> None:
        """Say how much there is to do."""
        self._num_files = len(files)
        total = sum(file.bytes for file in files)
        self.note(f"fetching {plural(len(files), 'file')}, {human_bytes(total)}")

    def start(self, file: RemoteFile, at: int) -> None:
        """Say only that a file is resumed."""
        if at:
            self.note(f"{file.path}: going on after {human_bytes(at)}")

    def done(self, file: RemoteFile) -> None:
        """Say that a file is here."""
        with self._lock:
            self._num_done += 1
            count = f"[{self._num_done}/{self._num_files}]"
        self.note(f"{count} {file.path}  {human_bytes(file.bytes)}, hash checked")

    def note(self, text: str) -> None:
        """One line."""
        with self._lock:
            print(text, file=sys.stderr, flush=True)


class Bars(Progress):
    """A bar for all bytes and one for each file under way, with rate and time left."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._rich = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._lock = threading.Lock()
        self._total: Any = None
        self._num_done = self._num_files = 0
        self._bars: dict[RemoteFile, Any] = {}
        self._here: dict[RemoteFile, int] = {}

    def begin(self, files: list[RemoteFile]) -> None:
        """The bar for everything."""
        self._num_files = len(files)
        self._total = self._rich.add_task(self._title(), total=sum(file.bytes for file in files))

    def start(self, file: RemoteFile, at: int) -> None:
        """A bar for this file, or back to `at`."""
        with self._lock:
            if file not in self._bars:
                self._bars[file] = self._rich.add_task(file.path, total=file.bytes)
            self._move(file, at)

    def advance(self, file: RemoteFile, num_bytes: int) -> None:
        """Both bars move."""
        with self._lock:
            self._move(file, self._here[file] + num_bytes)

    def done(self, file: RemoteFile) -> None:
        """The file's bar goes, the count moves."""
        with self._lock:
            self._num_done += 1
            if file in self._bars:
                self._rich.remove_task(self._bars.pop(file))
            self._rich.update(self._total, description=self._title())

    def note(self, text: str) -> None:
        """A line above the bars."""
        self._rich.console.print(text, markup=False, highlight=False)

    def _move(self, file: RemoteFile, to: int) -> None:
        self._rich.update(self._bars[file], completed=to)
        self._rich.advance(self._total, to - self._here.get(file, 0))
        self._here[file] = to

    def _title(self) -> str:
        return f"{self._num_done} of {plural(self._num_files, 'file')}"

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rich.stop()


def make_progress(wanted: bool | None) -> Progress:
    """Bars on a terminal, else lines; nothing when it is not wanted. None: as the terminal is."""
    if wanted is False:
        return Progress()
    return Bars() if sys.stderr.isatty() else Lines()
