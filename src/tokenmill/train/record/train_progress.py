"""What a training run prints: one line that moves on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TextIO

from tokenmill.base.human import human_duration

SECONDS_BETWEEN_LINES = 5.0  # off a terminal; a log of a long run stays readable


class Progress:
    """Loss, speed, share of time spent waiting for data, time left."""

    def __init__(self, last_step: int, *, quiet: bool = False, out: TextIO | None = None) -> None:
        self.last_step = last_step
        self.quiet = quiet
        self.out = sys.stderr if out is None else out
        self.moves = self.out.isatty()
        self._printed_at = -SECONDS_BETWEEN_LINES
        self._line_is_open = False

    def step(
        self,
        step: int,
        *,
        loss: float,
        tokens_per_second: float,
        data_wait: float,
        seconds_left: float,
    ) -> None:
        """Show where the run is; off a terminal at most every few seconds, and at the end."""
        now = time.monotonic()
        due = self.moves or step >= self.last_step
        if self.quiet or not (due or now - self._printed_at >= SECONDS_BETWEEN_LINES):
            return
        self._printed_at = now
        line = (
            f"step {step:,}/{self.last_step:,}  loss {loss:.4f}  "
            f"{tokens_per_second:,.0f} tokens/s  waiting for data {data_wait:.2%}  "
            f"{human_duration(seconds_left)} left"
        )
        if self.moves:
            self.out.write(f"\r\x1b[2K{line}")
            self._line_is_open = True
        else:
            self.out.write(line + "\n")
        self.out.flush()

    def say(self, text: str) -> None:
        """Print a line of its own."""
        if self.quiet:
            return
        if self._line_is_open:
            self.out.write("\n")
            self._line_is_open = False
        self.out.write(text + "\n")
        self.out.flush()
