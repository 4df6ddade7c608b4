"""A lock is held by a process that is alive, and by one only."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tokenmill.base.atomic import temporary_beside
from tokenmill.base.lock import (
    hold_lock,
    is_held,
    process_start,
    refuse_locked,
    wait_for_others,
)
from tokenmill.errors import LockedError

HOLD = """if True:
    import sys, time
    from pathlib import Path
    from tokenmill.base.lock import hold_lock
    with hold_lock(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "lock"


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()


def test_a_lock_that_another_process_holds_is_refused_with_its_name(path, holder):
    named = rf"process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(LockedError, match=named), hold_lock(path):
        pass
    with pytest.raises(LockedError):
        refuse_locked(path)
    assert is_held(path)
    assert json.loads(path.read_bytes())["pid"] == holder.pid


def test_the_lock_of_a_killed_process_is_taken_over(path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    assert path.exists()
    assert not is_held(path)
    with hold_lock(path):
        assert json.loads(path.read_bytes())["pid"] == os.getpid()
    assert not path.exists()


def test_a_lock_can_be_broken_and_the_old_holder_does_not_remove_the_new_one(path, holder):
    with hold_lock(path, break_lock=True):
        holder.send_signal(signal.SIGINT)  # it leaves its `with` in order
        holder.wait()
        assert json.loads(path.read_bytes())["pid"] == os.getpid()


def test_a_process_with_a_reused_number_is_not_the_holder(path):
    path.parent.mkdir()
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": "1"}
    path.write_text(json.dumps(me))

    assert not is_held(path)


def test_a_holder_on_another_machine_counts_as_alive(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": "1"}))

    assert is_held(path)
    with pytest.raises(LockedError, match="on elsewhere"), hold_lock(path):
        pass


def test_of_many_processes_one_gets_the_lock(path):
    code = HOLD.replace("time.sleep(60)", "sys.stdin.read()")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    while sum(process.poll() is not None for process in processes) < 3:
        pass
    (winner,) = [process for process in processes if process.poll() is None]
    out, _ = winner.communicate()

    assert out == b"held\n"
    assert winner.returncode == 0
    assert not path.exists()
    for process in processes:
        process.communicate()


def test_a_dead_process_has_no_start():
    process = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass

    assert process_start(process.pid) is None  # a zombie: nobody has waited for it yet
    process.wait()
    assert process_start(process.pid) is None
    assert process_start(os.getpid()) is not None


def test_whoever_makes_a_file_keeps_others_from_it_until_it_is_made(tmp_path):
    with (
        wait_for_others(tmp_path / "index.bin"),
        open(tmp_path / "index.lock") as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert os.listdir(tmp_path) == []


def test_only_what_was_begun_a_day_ago_is_removed(tmp_path):
    path = tmp_path / "index.bin"
    old, new = (temporary_beside(path) for _ in range(2))
    other = tmp_path / ".index.bin.mine.tmp"  # a name that we do not give
    for begun in (old, new, other):
        begun.write_bytes(b"half")
    for begun in (old, other):
        os.utime(begun, (0, 0))

    with wait_for_others(path):
        pass

    assert set(tmp_path.iterdir()) == {new, other}
