"""Progress on stderr: bars on a terminal, a line now and then elsewhere, or nothing.

Work reports to a `Progress`: sentences with `say`, and numbers that grow with a `Meter`.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TextIO, TypeVar

from tokenmill.base.human import human_bytes, human_duration, human_rate, plural, visible

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_MOVES = 0.1  # of a bar
SECONDS_FOR_A_RATE = 1.0  # the first moments say nothing about the rest

Result = TypeVar("Result")


class Meter:
    """A number that grows: bytes read, tasks done. Each move is shown, but not too often."""

    def __init__(self, progress: "Progress", what: str, total: int | None, in_bytes: bool) -> None:
        self.what = what
        self.total = total
        self.in_bytes = in_bytes
        self.done = 0
        self.note = ""
        self.under_way: Callable[[], int] = lambda: 0
        """Returns what is done of tasks that are not finished."""
        self._progress = progress
        self._first = 0  # `done` when the clock started: what was resumed took no time
        self._started = self._shown = time.monotonic()

    def skip(self, more: int) -> None:
        """Advance by what was there before, or, below 0, comes again; the rate leaves it out."""
        self._first += more
        self.advance(more)

    def move_to(self, done: int, note: str = "", *, now: bool = False) -> None:
        """Set the number; `note` says what else has grown, `now` shows it immediately."""
        self.done = done
        self.note = note or self.note
        clock = time.monotonic()
        if now or clock - self._shown >= self._progress.seconds_between:
            self._shown = clock
            self._progress.show(self)

    def advance(self, more: int, note: str = "") -> None:
        self.move_to(self.done + more, note)

    def end(self) -> None:
        """Stop showing this."""
        self._progress.forget(self)

    def __str__(self) -> str:
        """As in "12 MB of 90 MB, 3,456 tokens, 4.1 MB/s, 0:19 left"."""
        shown: Callable[[int], str] = human_bytes if self.in_bytes else "{:,}".format
        of = "" if self.total is None else f" of {shown(self.total)}"
        done = self.done + self.under_way()
        done = done if self.total is None else min(done, max(self.total, self.done))
        parts = [f"{shown(done)}{of}", self.note]
        seconds = time.monotonic() - self._started
        grown = done - self._first
        has_rate = grown > 0 and seconds >= SECONDS_FOR_A_RATE
        if has_rate and self.in_bytes:
            parts.append(human_rate(grown, seconds))
        if has_rate and self.total is not None:
            left = max(0, self.total - done) * seconds / grown
            parts.append(f"{human_duration(left)} left")
        return ", ".join(filter(None, parts))


class Progress(AbstractContextManager["Progress"]):
    """Shows nothing; `Lines` and `Bars` show more."""

    seconds_between = float("inf")
    """Between two times that a meter is shown."""

    words: Callable[[str], str] = staticmethod(lambda text: text)
    """Translates a sentence for its reader, such as keywords into flags."""

    def say(self, text: str) -> None:
        """Show a sentence."""
        self.write(self.words(text))

    def write(self, line: str) -> None:
        """Show one line, as it is."""

    def show(self, meter: Meter) -> None:
        """Show a meter that has moved."""

    def forget(self, meter: Meter) -> None:
        """Drop a meter that has ended."""

    def begin(self, what: str, total: int | None, *, in_bytes: bool = False) -> Meter:
        """Return a new meter; `total` is what it is expected to reach, None if not known."""
        return Meter(self, what, total, in_bytes)

    def follow(
        self,
        what: str,
        results: Iterable[Result],
        *,
        total: int,
        measure: Callable[[Result], tuple[int, int]] | None = None,
        under_way: Callable[[], int] = lambda: 0,
        was_done: Callable[[Result], bool] = lambda result: False,
    ) -> Iterator[Result]:
        """Yield results as they come.

        `measure` returns the bytes read and the tokens made of one result; without it, results are
        counted. `under_way` returns the bytes read for results that are still to come. The rate
        leaves out what `was_done` by an earlier run.
        """
        meter = self.begin(what, total, in_bytes=measure is not None)
        meter.under_way = under_way
        num_tokens = 0
        with self.watch(meter):
            for result in results:
                more, made = measure(result) if measure else (1, 0)
                num_tokens += made
                if was_done(result):
                    meter.skip(more)
                else:
                    meter.advance(more, plural(num_tokens, "token") if num_tokens else "")
                yield result

    @contextmanager
    def watch(self, meter: Meter) -> Iterator[Meter]:
        """Show a meter now and then, even while it does not move, until the block ends."""
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(max(self.seconds_between, SECONDS_BETWEEN_MOVES)):
                meter.move_to(meter.done)

        watcher = threading.Thread(target=look, daemon=True)
        if self.seconds_between < float("inf"):
            watcher.start()
        try:
            yield meter
        finally:
            is_over.set()
            if watcher.ident is not None:
                watcher.join()
            meter.end()

    def __exit__(self, *error: Any) -> None:
        return None


class Lines(Progress):
    """Shows a line now and then: for logs."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self.seconds_between = SECONDS_BETWEEN_LINES

    def write(self, line: str) -> None:
        self._file.write(f"{visible(line)}\n")  # one write: threads do not mix their lines
        self._file.flush()

    def show(self, meter: Meter) -> None:
        self.write(f"  {meter.what:<12} {meter}")


class Bars(Progress):
    """Shows a bar for each meter until it ends; sentences appear above the bars."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description:<12}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        )
        self._bars: dict[Meter, Any] = {}
        self.seconds_between = SECONDS_BETWEEN_MOVES

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._rich.stop()

    def write(self, line: str) -> None:
        self._rich.console.print(visible(line), markup=False, highlight=False)

    def begin(self, what: str, total: int | None, *, in_bytes: bool = False) -> Meter:
        meter = super().begin(what, total, in_bytes=in_bytes)
        self._bars[meter] = self._rich.add_task(what, total=total, text="")
        return meter

    def show(self, meter: Meter) -> None:
        self._rich.update(
            self._bars[meter], description=meter.what, completed=meter.done, text=str(meter)
        )

    def forget(self, meter: Meter) -> None:
        if meter in self._bars:
            self._rich.remove_task(self._bars.pop(meter))


def open_progress(
    *, quiet: bool = False, words: Callable[[str], str] = lambda text: text
) -> Progress:
    """Return bars on a terminal, else lines; nothing when quiet. For a `with` statement."""
    if quiet:
        return Progress()
    shown = Bars() if sys.stderr.isatty() else Lines()
    shown.words = words
    return shown
