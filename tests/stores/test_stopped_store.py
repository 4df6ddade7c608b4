"""A store that does not answer is named in the log, and holds up neither a batch nor the end."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from stores.conftest import new_bucket

import tokenmill
from tokenmill.base.address import join
from tokenmill.stores import objects

# A process of its own: the log names whatever any thread of a process waits for.
WAITS = """
import json, logging, os, signal, sys
import tokenmill
from tokenmill.batches import BatchForm

bucket, cache, server = sys.argv[1], sys.argv[2], int(sys.argv[3])
messages = []

class Continue(logging.Handler):
    def emit(self, record):
        messages.append(record.getMessage())
        if "the store: get" in messages[-1]:  # a busy machine may be slow before it asks
            os.kill(server, signal.SIGCONT)

logging.getLogger("tokenmill").addHandler(Continue())
data = tokenmill.open(bucket, cache_dir=cache)
form = BatchForm(stall_seconds=0.3)
loader = tokenmill.BatchLoader(data, batch_size=4, block_size=16, form=form)
os.kill(server, signal.SIGSTOP)
rows = next(loader).inputs.tolist()
longest = loader.stats()["stages"]["fetch"]["max"]
loader.close()
print(json.dumps([rows, longest, messages]))
"""

# It is interrupted while it waits; nothing wakes the store before the process has ended.
INTERRUPTED = """
import logging, os, signal, sys
import tokenmill
from tokenmill.batches import BatchForm

bucket, cache, server = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Interrupt(logging.Handler):
    def emit(self, record):
        os.kill(os.getpid(), signal.SIGINT)

logging.getLogger("tokenmill").addHandler(Interrupt())
data = tokenmill.open(bucket, cache_dir=cache)
loader = tokenmill.BatchLoader(data, batch_size=4, block_size=16, form=BatchForm(stall_seconds=0.3))
os.kill(server, signal.SIGSTOP)
try:
    next(loader)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def stopped(use_server, tmp_path):
    """Run a program with a dataset in a bucket, a folder for a cache, and the server to stop."""
    server = use_server("moto")
    bucket = new_bucket(server)
    tokenmill.write_tokens([np.arange(900)] * 9, tmp_path / "data", end_of_text_id=1000)
    for path in sorted(tmp_path.rglob("data/**/*.*")):
        objects.upload(path, join(bucket, str(path.relative_to(tmp_path / "data"))))

    def run(program, seconds):
        given = [bucket, str(tmp_path / "cache"), str(server.process.pid)]
        command = [sys.executable, "-c", program, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stderr
        return bucket, done.stdout

    yield run
    server.process.send_signal(signal.SIGCONT)


def test_a_stopped_store_is_named_within_the_time(stopped, tmp_path):
    bucket, printed = stopped(WAITS, seconds=120)

    rows, longest, messages = json.loads(printed)
    local = tokenmill.BatchLoader(tokenmill.open(tmp_path / "data"), batch_size=4, block_size=16)
    assert np.array_equal(rows, local.batch(0).inputs)
    named = next(message for message in messages if "the store: get" in message)
    assert f"waiting for a batch of 1 files: {bucket}/train/shard_00000.bin, for " in named
    assert f"; the store: get {bucket}/train/shard_00000.bin, for " in named
    assert longest > 0.3


def test_a_program_ends_without_waiting_for_a_store(stopped):
    """obstore gives up after 90 seconds."""
    assert stopped(INTERRUPTED, seconds=60)[1] == "interrupted\n"
