"""A wait that is too long is logged with what is waited for, by whoever is not stuck."""

import logging
import subprocess
import sys
import threading

import numpy as np
import pytest
from system_faults import injecting, needs_strace

import tokenmill
from tokenmill.base.lock import wait_for_others
from tokenmill.base.stalls import log_long_waits, waiting_for
from tokenmill.batches import BatchForm
from tokenmill.batches.prefetch import Prefetcher
from tokenmill.formats.ours import Tokenmill


class Logged(logging.Handler):
    """Messages of tokenmill, which a test can wait for."""

    def __init__(self):
        super().__init__()
        self.arrived = threading.Event()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
        self.arrived.set()


@pytest.fixture
def logged():
    handler = Logged()
    logging.getLogger("tokenmill").addHandler(handler)
    yield handler
    logging.getLogger("tokenmill").removeHandler(handler)


def stuck_until(event):
    """Items of which the second one waits for an event."""
    yield 0
    with waiting_for(lambda: "a batch of shard 7"):
        assert event.wait(60)
    yield 1


@pytest.mark.parametrize("by_thread", [False, True])
def test_an_item_that_takes_too_long_is_described_once_in_a_while(logged, by_thread):
    """By the thread if the owner makes it, by the owner if the thread does."""
    items = stuck_until(logged.arrived)
    waits = Prefetcher(items, 1, stall=0.2)

    assert next(waits) == 0
    if not by_thread:
        waits._left_at = float("inf")  # no ticket: the owner comes back immediately
    assert next(waits) == 1
    waits.close()

    assert logged.messages[0].startswith("1 stalled: waiting for a batch of shard 7, for 0.")
    assert " s at prefetch.py:" in logged.messages[0]
    assert len(logged.messages) == 1


def test_a_lock_of_another_process_is_named(logged, tmp_path):
    path = tmp_path / "some.block"
    holder = subprocess.Popen(
        ["flock", str(tmp_path / "some.lock"), "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"

        def items():
            with wait_for_others(path):
                yield "made"

        threading.Thread(target=lambda: logged.arrived.wait(60) and holder.stdin.close()).start()
        assert next(Prefetcher(items(), 1, stall=0.2)) == "made"

    assert f"waiting for the lock {tmp_path / 'some.lock'}, for 0." in logged.messages[0]
    assert "at descriptors.py:" in logged.messages[0]


def test_a_wait_of_another_thread_is_named_while_no_batch_is_asked_for(logged):
    """A rank that waits for the others in the middle of a step."""
    batches = Prefetcher(iter(range(100)), 1, stall=0.2)
    next(batches)

    with waiting_for("the other ranks, on rank 0"):
        assert logged.arrived.wait(60)

    batches.close()
    assert "waiting for the other ranks, on rank 0, for 0." in logged.messages[0]
    assert not log_long_waits(0)


def test_a_data_loader_of_torch_looks_for_long_waits_too(logged):
    torch = pytest.importorskip("tokenmill.torch")
    data = tokenmill.from_array(np.arange(900))
    form = BatchForm(stall_seconds=0.2)
    batches = iter(torch.TokenDataLoader(data, batch_size=2, block_size=8, form=form))
    next(batches)

    with waiting_for("the other ranks, on rank 0"):
        assert logged.arrived.wait(60)

    del batches
    assert "waiting for the other ranks, on rank 0, for 0." in logged.messages[0]
    assert "tokenmill-prefetch" not in [thread.name for thread in threading.enumerate()]


def test_a_loader_names_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(Tokenmill, "tokens_per_shard", 100)
    tokenmill.write_tokens([np.arange(900)] * 9, tmp_path / "data", end_of_text_id=1000)
    loader = tokenmill.BatchLoader(
        tokenmill.open(tmp_path / "data"), batch_size=8, block_size=64, order="sequential"
    )

    loader.batch(0)

    files = [str(tmp_path / "data" / "train" / f"shard_{i:05d}.bin") for i in range(3)]
    assert loader._maker._describe() == f"a batch of 6 files: {', '.join(files)}"


HUNG = """
import sys, tokenmill
from tokenmill.batches import BatchForm
data = tokenmill.open(sys.argv[1], backend="pread")
form = BatchForm(stall_seconds=0.5)
loader = tokenmill.BatchLoader(data, batch_size=2, block_size=8, form=form)
print(next(loader))
"""


@needs_strace
def test_a_file_system_that_hangs_is_named_within_the_time(tmp_path):
    """Each read of a shard takes a minute: the process ends long before, when it has said so."""
    tokenmill.write_tokens([np.arange(900)], tmp_path / "data", end_of_text_id=1000)
    program = subprocess.Popen(
        [
            *injecting("delay_enter=60s", "preadv,preadv2"),
            sys.executable,
            "-c",
            HUNG,
            tmp_path / "data",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        line = program.stderr.readline()
        program.kill()

    assert line.startswith("1 stalled: waiting for a batch of 1 files: ")
    assert f"{tmp_path}/data/train/shard_00000.bin, for 0." in line
    assert "at descriptors.py:" in line


@pytest.mark.parametrize("wrong", [0, -1, float("nan")])
def test_the_time_must_be_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="stall_seconds is"):
        BatchForm(stall_seconds=wrong)


def test_it_may_be_endless(logged):
    assert list(Prefetcher(iter(range(3)), 2, stall=float("inf"))) == [0, 1, 2]
    assert logged.messages == []
