"""Waits grow, differ, and end: by the number of tries, by a deadline, or when stopped."""

import threading
import time

import pytest

from tokenmill.base.retry import (
    LONGEST_RETRY_AFTER,
    Retry,
    RetryClock,
    Transient,
    seconds_asked_for,
)
from tokenmill.errors import DownloadError, Stopped


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"ratelimit": '"api";r=0;t=57'}, 57.0),
        ({"ratelimit": '"api";r=3;t=57'}, None),
        ({}, None),
    ],
)
def test_the_server_is_understood_when_it_asks_to_wait(headers, expected):
    assert seconds_asked_for(headers) == expected


def test_waits_double_up_to_the_longest_and_are_shortened_by_chance():
    retry = Retry(first_wait=1.0, longest_wait=6.0)
    for failures, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0), (40, 6.0)):
        waits = [retry.wait(failures) for _ in range(200)]
        assert longest / 2 <= min(waits) < max(waits) <= longest


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"first_wait": -1}, {"longest_wait": -0.1}, {"timeout": -5}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Retry(**wrong)


def test_it_gives_up_after_the_last_try():
    clock = RetryClock(Retry(attempts=3, first_wait=0.0))
    clock.pause("a file", 2, Transient("503"))
    with pytest.raises(DownloadError, match=r"a file: 503 \(tried 3 times\)") as given_up:
        clock.pause("a file", 3, Transient("503"))
    assert "resumes" in given_up.value.hint


def test_it_waits_as_long_as_the_server_asks_but_not_for_ever():
    clock = RetryClock(Retry(first_wait=0.0))
    started = time.monotonic()
    clock.pause("a file", 1, Transient("429", after=0.3))
    assert time.monotonic() - started >= 0.3
    with pytest.raises(DownloadError, match="asks to wait 601 s"):
        clock.pause("a file", 1, Transient("429", after=LONGEST_RETRY_AFTER + 1))


def test_a_wait_beyond_the_deadline_is_not_begun():
    clock = RetryClock(Retry(first_wait=100.0, longest_wait=100.0, deadline=5.0))
    started = time.monotonic()
    with pytest.raises(DownloadError, match="no time is left before the deadline of 5 s"):
        clock.pause("a file", 1, Transient("503"))
    assert time.monotonic() - started < 1
    with pytest.raises(DownloadError, match="deadline of 0 s has passed"):
        RetryClock(Retry(deadline=0.0)).check("a file")


def test_stop_ends_the_waits_of_all_threads():
    clock, ended = RetryClock(Retry(first_wait=60.0)), []

    def wait():
        with pytest.raises(Stopped):
            clock.pause("a file", 1, Transient("503"))
        ended.append(True)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    clock.stop()
    for thread in threads:
        thread.join(10)

    assert ended == [True] * 3
