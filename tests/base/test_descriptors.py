"""Open files: the same on every system, but for what a system refuses (tests/disguises)."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tokenmill
from tokenmill.base import descriptors, system
from tokenmill.errors import TokenmillError

on_windows = pytest.mark.skipif(
    system.sys.platform != "win32", reason="only Windows refuses to replace an open file"
)


def test_reading_at_a_position_leaves_the_position(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(100)))
    file = descriptors.open_descriptor(tmp_path / "a", os.O_RDWR)
    os.lseek(file, 7, os.SEEK_SET)
    view = memoryview(bytearray(4))

    assert descriptors.read_at(file, 3, 50) == bytes([50, 51, 52])
    assert descriptors.read_into(file, view, 98) == 2
    assert bytes(view) == bytes([98, 99, 0, 0])
    assert os.lseek(file, 0, os.SEEK_CUR) == 7
    descriptors.write_at(file, b"xy", 10)
    assert descriptors.read_at(file, 2, 10) == b"xy"
    os.close(file)


def test_threads_read_one_file_at_their_own_positions(tmp_path):
    numbers = np.arange(1 << 16, dtype=np.uint32)
    numbers.tofile(tmp_path / "a")
    file = descriptors.open_descriptor(tmp_path / "a", os.O_RDONLY)
    wrong = []

    def read(first):
        for number in range(first, len(numbers), 199):
            data = descriptors.read_at(file, 4, 4 * number)
            if int.from_bytes(data, "little") != number:
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    os.close(file)

    assert not wrong


def test_what_is_reserved_is_on_the_disk_and_empty(tmp_path):
    with open(tmp_path / "a", "w+b") as file:
        descriptors.reserve(file.fileno(), 3_000_000)
        assert file.read() == bytes(3_000_000)

    assert os.stat(tmp_path / "a").st_blocks * 512 >= 3_000_000


def test_a_symbolic_link_is_not_followed_where_it_must_not_be(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to(tmp_path / "a")

    with pytest.raises(OSError, match="symbolic"):
        descriptors.open_descriptor(tmp_path / "link", os.O_RDONLY, follow=False)
    os.close(descriptors.open_descriptor(tmp_path / "link", os.O_RDONLY))


def test_a_folder_in_the_place_of_a_file_is_named_as_one(tmp_path):
    with pytest.raises(IsADirectoryError):
        descriptors.open_descriptor(tmp_path, os.O_RDWR)


def test_a_lock_is_waited_for(tmp_path):
    """The other process writes before it gives the lock back; this one reads afterwards."""
    code = (
        "import os, sys; from tokenmill.base.descriptors import lock, open_descriptor\n"
        "file = open_descriptor(sys.argv[1], os.O_RDWR | os.O_CREAT); lock(file)\n"
        "print('locked', flush=True); sys.stdin.read(1)\n"
        "open(sys.argv[1] + '.done', 'wb').close(); os.close(file)"
    )
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"locked\n"
    file = descriptors.open_descriptor(path, os.O_RDWR)
    threading.Timer(0.3, lambda: holder.communicate(b"x")).start()

    descriptors.lock(file)

    assert (tmp_path / "lock.done").exists()
    os.close(file)
    holder.wait()


@on_windows
def test_a_dataset_in_use_is_not_replaced_and_the_same_command_continues(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one " * 500)
    (tmp_path / "b.txt").write_bytes(b"two " * 500)
    out = tmp_path / "out"
    tokenmill.prepare(tmp_path / "a.txt", out, tokenizer="bytes", workers=1)
    data = tokenmill.open(out)
    before = data[:20].copy()

    tokenmill.prepare(tmp_path / "b.txt", out, workers=1, append=True)  # new files only
    again = {"tokenizer": "bytes", "workers": 1, "overwrite": True}
    with pytest.raises(TokenmillError, match="has one of them open"):
        tokenmill.prepare(tmp_path / "b.txt", out, **again)
    assert (data[:20] == before).all()
    del data
    tokenmill.prepare(tmp_path / "b.txt", out, **again)

    assert bytes(tokenmill.open(out)[:4].astype(np.uint8)) == b"two "
