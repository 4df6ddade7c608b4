"""What work shows: bars on a terminal, lines elsewhere, nothing when quiet."""

import io
import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from tokenmill.base import progress as progress_module
from tokenmill.base.progress import Bars, Lines, Progress, open_progress


class Clock:
    """Time that moves only when a test moves it."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


@pytest.fixture
def log():
    return io.StringIO()


def test_a_line_says_how_much_how_fast_and_how_long_still(clock, log):
    meter = Lines(log).begin("encode", 90_000_000, in_bytes=True)
    clock.now += 10
    meter.advance(30_000_000, "4,000 tokens")

    assert log.getvalue() == ("  encode       30 MB of 90 MB, 4,000 tokens, 3.0 MB/s, 0:20 left\n")


def test_lines_come_every_five_seconds_and_no_more(clock, log):
    meter = Lines(log).begin("shards", 100)
    for _ in range(95):
        clock.now += 1
        meter.advance(1)

    shown = [int(line.split()[1]) for line in log.getvalue().splitlines()]
    assert shown == list(range(5, 96, 5))


def test_what_was_there_before_is_not_counted_as_speed(clock, log):
    meter = Lines(log).begin("a.bin", 100_000, in_bytes=True)
    meter.skip(50_000)
    clock.now += 10
    meter.advance(10_000)

    assert "60 kB of 100 kB, 1.0 kB/s, 0:40 left" in log.getvalue()


def test_a_move_can_be_shown_at_once_and_a_total_may_be_unknown(clock, log):
    meter = Lines(log).begin("a.gz", None, in_bytes=True)
    clock.now += 1
    meter.move_to(5000, now=True)

    assert log.getvalue() == "  a.gz         5.0 kB, 5.0 kB/s\n"


@pytest.mark.parametrize("kind", [Progress, lambda: Lines(io.StringIO()), Bars])
def test_results_pass_through_unchanged(kind):
    with kind() as progress:
        assert list(progress.follow("work", iter("abc"), total=3)) == ["a", "b", "c"]


def test_tokens_add_up_over_results(clock, log):
    def measure(result):
        clock.now += 10
        return result

    results = [(1000, 300), (2000, 700)]
    assert list(Lines(log).follow("encode", results, total=3000, measure=measure)) == results

    assert "1.0 kB of 3.0 kB, 300 tokens" in log.getvalue()
    assert "3.0 kB of 3.0 kB, 1,000 tokens" in log.getvalue()


def test_results_of_an_earlier_run_are_not_counted_as_speed(clock, log):
    def measure(result):
        clock.now += 10
        return 1000, 10

    results = ["before", "before", "now"]
    progress = Lines(log)
    was_done = "before".__eq__
    assert list(progress.follow("encode", results, total=4000, measure=measure, was_done=was_done))

    last = log.getvalue().splitlines()[-1]
    assert last.endswith("3.0 kB of 4.0 kB, 30 tokens, 33 bytes/s, 0:30 left")


def test_work_that_finishes_nothing_for_long_is_shown_too():
    """The one result comes only when a line was shown: without that, this would wait in vain."""
    was_shown, read = threading.Event(), iter(range(10, 1000, 10))

    class Log(io.StringIO):
        def write(self, text):
            was_shown.set()
            return super().write(text)

    def results():
        yield was_shown.wait(60)

    log = Log()
    progress = Lines(log)
    progress.seconds_between = 0.01
    assert list(
        progress.follow(
            "one large file",
            results(),
            total=1000,
            measure=lambda _: (1000, 5),
            under_way=lambda: next(read),
        )
    ) == [True]

    assert "10 bytes of 1.0 kB" in log.getvalue().splitlines()[0]


def test_nothing_is_said_of_the_rest_in_the_first_moments(clock, log):
    meter = Lines(log).begin("encode", 90_000_000, in_bytes=True)
    clock.now += 0.9
    meter.move_to(1, now=True)
    clock.now += 9.1
    meter.under_way = lambda: 9_000_000
    meter.move_to(1, now=True)

    assert log.getvalue().splitlines() == [
        "  encode       1 byte of 90 MB",
        "  encode       9.0 MB of 90 MB, 900 kB/s, 1:30 left",
    ]


def test_what_is_under_way_is_never_more_than_all(clock, log):
    meter = Lines(log).begin("encode", 100, in_bytes=True)
    meter.under_way = lambda: 60
    meter.move_to(60, now=True)

    assert "100 bytes of 100 bytes" in log.getvalue()


PROGRAM = """if True:
    import sys
    from tokenmill.base import progress
    progress.SECONDS_BETWEEN_MOVES = 0.0
    with progress.open_progress(quiet=len(sys.argv) > 1) as shown:
        shown.say("a [bold]sentence")
        meter = shown.begin("shards", 4)
        for _ in range(4):
            meter.advance(1)
    print("result")
"""


def test_on_a_terminal_there_is_a_bar_and_it_goes_to_stderr():
    main, side = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=side, check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(side)
    shown = os.read(main, 1 << 16).decode()
    os.close(main)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)

    assert done.stdout == b"result\n"
    assert "a [bold]sentence" in plain
    assert "shards" in plain
    assert "4 of 4" in plain


@pytest.mark.parametrize(("arguments", "expected"), [([], b"a [bold]sentence\n"), (["-q"], b"")])
def test_elsewhere_there_are_lines_and_nothing_when_quiet(arguments, expected):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=True
    )

    assert (done.stdout, done.stderr) == (b"result\n", expected)


def test_rich_is_not_imported_off_a_terminal():
    code = "import sys; from tokenmill.base.progress import open_progress; open_progress();"
    code += "print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"False\n"
    assert type(open_progress(quiet=True)) is Progress
