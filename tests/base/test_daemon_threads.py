"""Work in threads that no program waits for at its end."""

import gc
import subprocess
import sys
import threading

import pytest

from tokenmill.base.daemon_threads import DaemonThreads


def test_results_and_errors_come_to_who_asked():
    threads = DaemonThreads(3, "test-results")

    squares = [threads.submit(lambda n=n: n * n) for n in range(100)]
    wrong = threads.submit(lambda: 1 / 0)

    assert [future.result(60) for future in squares] == [n * n for n in range(100)]
    with pytest.raises(ZeroDivisionError):
        wrong.result(60)


def test_as_many_work_together_as_are_allowed():
    threads = DaemonThreads(2, "test-limit")
    both = threading.Barrier(3, timeout=60)
    go = threading.Event()
    began = []

    def work(number):
        began.append(number)
        if number < 2:
            both.wait()
        assert go.wait(60)

    futures = [threads.submit(lambda n=n: work(n)) for n in range(5)]
    both.wait()
    assert sorted(began) == [0, 1]
    go.set()

    for future in futures:
        future.result(60)
    assert sorted(began) == [0, 1, 2, 3, 4]


def test_what_waits_is_dropped_and_the_threads_end_with_their_owner():
    threads = DaemonThreads(1, "test-dropped")
    started = threading.Event()
    go = threading.Event()
    first = threads.submit(lambda: (started.set(), go.wait(60)))
    second = threads.submit(lambda: None)
    assert started.wait(60)
    (thread,) = (t for t in threading.enumerate() if t.name == "test-dropped")

    del threads
    gc.collect()
    go.set()

    thread.join(60)
    assert not thread.is_alive()
    assert first.done()
    assert not second.done()


def test_what_is_cancelled_is_not_begun():
    threads = DaemonThreads(1, "test-cancelled")
    go = threading.Event()
    began = []
    threads.submit(lambda: go.wait(60))
    cancelled = threads.submit(lambda: began.append("cancelled"))

    assert cancelled.cancel()
    go.set()

    threads.submit(lambda: began.append("last")).result(60)
    assert began == ["last"]


def test_a_program_ends_while_one_still_works():
    program = (
        "import threading; from tokenmill.base.daemon_threads import DaemonThreads; "
        "threads = DaemonThreads(1, 'x'); threads.submit(threading.Event().wait)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
