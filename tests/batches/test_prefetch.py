"""The prefetching thread: in order, bounded, and gone when its owner is."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from batches.numbered import numbered

from tokenmill import BatchLoader
from tokenmill.batches import BatchForm
from tokenmill.batches.prefetch import Prefetcher
from tokenmill.errors import TruncatedShardError

_started = []


@pytest.fixture(autouse=True)
def _nothing_goes_on_for_ever():
    yield
    while _started:
        with _started.pop() as program:
            program.kill()


def python(code, **options):
    """Start a program that may import what this one can."""
    path = os.pathsep.join(p for p in sys.path if p)
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    _started.append(program)
    return program


LOADER = """
import numpy as np, threading, sys
from tokenmill.dataset import from_array
from tokenmill import BatchLoader
loader = BatchLoader(from_array(np.arange(100_000, dtype=np.uint32)), block_size=16)
"""


@pytest.mark.parametrize("depth", [0, 1, 2, 7])
def test_items_come_in_order_and_then_end(depth):
    prefetcher = Prefetcher(iter(range(100)), depth)

    assert list(prefetcher) == list(range(100))
    with pytest.raises(StopIteration):
        next(prefetcher)
    prefetcher.close()
    thread = prefetcher._shared.thread
    assert (thread is None) == (depth == 0)
    assert depth == 0 or not thread.is_alive()


def test_items_come_in_order_however_owner_and_thread_take_turns():
    """An owner that is now away, now back at once: it takes from the thread or makes its own."""
    prefetcher = Prefetcher(iter(range(400)), 3)
    seen, pause = [], threading.Event()
    for i in range(400):
        seen.append(next(prefetcher))
        if i % 7 == 0:
            pause.wait(0.0003)

    assert seen == list(range(400))


def test_it_never_runs_further_ahead_than_asked():
    made, enough = [], threading.Event()

    def items():
        for i in range(100):
            made.append(i)
            if i == 3:
                enough.set()
            yield i

    prefetcher = Prefetcher(items(), 3)
    assert next(prefetcher) == 0
    assert enough.wait(10)
    prefetcher.close()  # joins the thread: what it has made by now is all it will

    assert made == [0, 1, 2, 3]


def test_what_goes_wrong_in_the_thread_is_raised_where_the_item_is_asked_for():
    def items():
        yield 1
        raise OSError("disk on fire")

    prefetcher = Prefetcher(items(), 4)

    assert next(prefetcher) == 1
    with pytest.raises(OSError, match="disk on fire"):
        next(prefetcher)


def test_a_file_cut_short_is_an_error_at_its_batch_and_again_when_tried_again(in_shards):
    data = in_shards(np.arange(1000, dtype=np.uint16), [1000], backend="pread")
    loader = BatchLoader(
        data, batch_size=2, block_size=16, order="sequential", form=BatchForm(prefetch=3)
    )
    next(loader)
    loader.state_dict()  # the first one looks into the files, to know them again
    with open(data.files[0].path, "r+b") as file:
        file.truncate(800)

    for _ in range(2):
        with pytest.raises(TruncatedShardError):
            list(itertools.islice(loader, 30))
    assert loader.state_dict()["samples"] <= 26


def test_dropping_the_loader_ends_its_thread():
    loader = BatchLoader(numbered(1000), block_size=16)
    next(loader)
    thread, gone = loader._batches._shared.thread, weakref.ref(loader)

    del loader
    gc.collect()

    assert gone() is None
    assert not thread.is_alive()


def test_closing_and_loading_a_state_end_the_thread_and_iterating_starts_another():
    loader = BatchLoader(numbered(1000), block_size=16, batch_size=1)
    first = next(loader)
    thread = loader._batches._shared.thread
    state = loader.state_dict()

    loader.load_state_dict(state)

    assert not thread.is_alive()
    assert next(loader).samples.tolist() == [first.samples[0] + 1]
    loader.close()
    assert next(loader).samples.tolist() == [first.samples[0] + 2]
    thread = loader._batches._shared.thread
    loader.close()
    assert not thread.is_alive()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_batch_that_was_taken_but_not_counted_is_served_again(prefetch):
    """What a Ctrl-C at the wrong moment leaves, when the program catches it and continues."""
    loader = BatchLoader(
        numbered(1000), block_size=16, batch_size=1, form=BatchForm(prefetch=prefetch)
    )
    next(loader)

    next(loader._batches)

    assert [next(loader).step for _ in range(3)] == [1, 2, 3]
    assert loader.state_dict()["samples"] == 4


def test_a_program_that_just_ends_does_not_hang():
    out, err = python(LOADER + "next(loader); print('done')").communicate(timeout=60)

    assert (out, err) == ("done\n", "")


def test_a_program_that_dies_of_an_error_does_not_hang():
    program = python(LOADER + "next(loader); raise SystemExit(3)")

    assert program.communicate(timeout=60) == ("", "")
    assert program.returncode == 3


def test_ctrl_c_in_the_loop_ends_the_program():
    code = LOADER + "print('going', flush=True)\nfor batch in loader: pass"
    program = python(code)
    assert program.stdout.readline() == "going\n"

    program.send_signal(signal.SIGINT)

    _, err = program.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert program.returncode != 0


def test_ctrl_c_while_waiting_for_a_batch_ends_the_program():
    code = (
        "from tokenmill.batches.prefetch import Prefetcher\n"
        "import threading\n"
        "def items():\n"
        "    yield 1\n"
        "    threading.Event().wait(3)\n"
        "p = Prefetcher(items(), 2)\n"
        "next(p); print('waiting', flush=True); next(p)"
    )
    program = python(code)
    assert program.stdout.readline() == "waiting\n"

    err = interrupt_until_it_ends(program)

    assert "KeyboardInterrupt" in err


def interrupt_until_it_ends(program):
    """Press Ctrl-C again: Python sees one that comes just before a wait begins only after it."""
    while True:
        program.send_signal(signal.SIGINT)
        try:
            return program.communicate(timeout=1)[1]
        except subprocess.TimeoutExpired:
            continue


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_continues_by_itself_from_the_same_place():
    code = LOADER + (
        "import os\n"
        "first = next(loader)\n"
        "pid = os.fork()\n"
        "name = 'child' if pid == 0 else 'parent'\n"
        "rows = [next(loader).samples.tolist() for _ in range(3)]\n"
        "if pid: os.waitpid(pid, 0)\n"
        "print(name, rows, flush=True)\n"
    )

    out, err = python(code).communicate(timeout=60)

    lines = dict(line.split(" ", 1) for line in out.splitlines())
    assert lines["child"] == lines["parent"] == str([[*range(8 * i, 8 * i + 8)] for i in (1, 2, 3)])
    assert err == "" or "fork" in err  # newer Pythons warn of threads
