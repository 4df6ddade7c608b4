"""What a running preparation shows: a bar on a terminal, plain lines elsewhere, or nothing."""

import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol, Self, TextIO

SECONDS_BETWEEN_LINES = 10.0

Results = Iterator[tuple[int, dict[str, Any]]]


class Progress(Protocol):
    """Told what is going on; never asked."""

    def say(self, text: str) -> None:
        """A sentence for people."""

    def follow(self, what: str, results: Results, *, bytes: int = 0, tasks: int = 0) -> Results:
        """Pass results on as they come; so many bytes, or else tasks, are to be expected."""


def bytes_and_tokens(receipt: dict[str, Any]) -> tuple[int, int]:
    """Bytes read and tokens made, as a receipt tells them."""
    tokens = sum(part["tokens"] for part in receipt.get("parts", ()))
    return receipt.get("counts", {}).get("bytes_in", 0), tokens


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def follow(self, what: str, results: Results, *, bytes: int = 0, tasks: int = 0) -> Results:
        """Pass results on."""
        yield from results


class Lines:
    """A line now and then: for logs."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr

    def say(self, text: str) -> None:
        """Print it."""
        print(text, file=self.file, flush=True)

    def follow(self, what: str, results: Results, *, bytes: int = 0, tasks: int = 0) -> Results:
        """Pass results on; a line every ten seconds."""
        started = last = time.monotonic()
        read = tokens = 0
        for done, result in enumerate(results, 1):
            more, ids = bytes_and_tokens(result[1])
            read, tokens = read + more, tokens + ids
            if time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                self.say(_line(what, read if bytes else done, bytes, tasks, tokens, last - started))
            yield result


class Bar(Silent):
    """A bar with bytes, tokens, rate and time left."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[tokens]:,} tokens"),
            TimeRemainingColumn(),
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)

    def say(self, text: str) -> None:
        """Print it above the bar."""
        self.bar.console.print(text, markup=False, highlight=False)

    def follow(self, what: str, results: Results, *, bytes: int = 0, tasks: int = 0) -> Results:
        """Pass results on and move the bar."""
        task, tokens = self.bar.add_task(what, total=bytes or tasks, tokens=0), 0
        for result in results:
            more, ids = bytes_and_tokens(result[1])
            tokens += ids
            self.bar.update(task, advance=more if bytes else 1, tokens=tokens)
            yield result
        self.bar.remove_task(task)


def _line(what: str, done: int, bytes: int, tasks: int, tokens: int, seconds: float) -> str:
    rate = done / max(seconds, 1e-9)
    left = f"{max(0, (bytes or tasks) - done) / max(rate, 1e-9):.0f} s left"
    if not bytes:
        return f"  {what:<12} {done:,} of {tasks:,}, {left}"
    made = f", {tokens:,} tokens" if tokens else ""
    return (
        f"  {what:<12} {done / 1e6:,.0f} of {bytes / 1e6:,.0f} MB{made}, {rate / 1e6:,.0f} MB/s, "
        f"{left}"
    )
