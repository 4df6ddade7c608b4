"""Downloads that are killed, stopped, out of room, or not alone in their folder."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from hub.conftest import REPO, llmc_shard
from hub.test_download import FIRST_THREE, get, partials, visible

from tokenmill.hub.checked_files import CheckedFiles
from tokenmill.hub.remote_files import HubFile

SHARD = FIRST_THREE[0]

CHILD = """
import sys
from tokenmill.hub import Retry, download
download(folder=sys.argv[1], progress=False, retry=Retry(first_wait=0.01))
"""


def start_child(folder):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], env=env)


def test_a_folder_that_may_only_be_read_does_without_records():
    """Nobody may make a folder in /sys, whether it is mounted to be read only or not."""
    files = CheckedFiles(Path("/sys"), REPO)

    files.note_commit("main", "0" * 40, [])

    assert files.commit_of("main") == ("", [])


def test_a_record_that_cannot_be_written_for_another_reason_is_an_error(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        CheckedFiles(tmp_path / "file", REPO).note_commit("main", "0" * 40, [])


def test_killed_in_the_middle_the_next_run_fetches_what_is_missing(hub, shards, tmp_path):
    last = FIRST_THREE[2]
    hold = hub.fault(last, "hold")
    child = start_child(tmp_path / "d")
    assert hold.reached.wait(20)
    wait_until(lambda: len(visible(tmp_path / "d")) == 2)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    hold.release.set()
    hub.requests.clear()

    get(tmp_path / "d")

    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}
    assert {unquote(r.path).rpartition("/")[2].partition("?")[0] for r in hub.bodies()} == {last}


def test_killed_while_it_replaces_the_next_run_keeps_what_is_complete(hub, shards, tmp_path):
    """Files that replace older ones wait until all are here; a kill does not lose them."""
    get(tmp_path / "d")
    newer = {name: llmc_shard(90 + n) for n, name in enumerate(FIRST_THREE)}
    hub.commit(REPO, newer)
    hold = hub.fault(FIRST_THREE[2], "hold")
    child = start_child(tmp_path / "d")
    assert hold.reached.wait(20)
    wait_until(lambda: len([p for p in partials(tmp_path / "d") if p.suffix != ".tmp"]) == 2)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    hold.release.set()
    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}
    hub.requests.clear()

    get(tmp_path / "d")

    assert visible(tmp_path / "d") == newer
    assert len([r for r in hub.bodies() if r.server == "store"]) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_on_a_dead_line_it_ends_at_once(hub, shards, tmp_path, number):
    hold = hub.fault(SHARD, "hold")
    command = [sys.executable, "-m", "tokenmill", "download", "--shards", "1", "-o", tmp_path / "d"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE)
    assert hold.reached.wait(20)

    child.send_signal(number)

    assert child.wait(10) == 75  # though the server is silent and the timeout 30 s
    assert child.stderr.read().endswith(b"stopped\n")
    hold.release.set()
    assert visible(tmp_path / "d") == {}
    get(tmp_path / "d", shards=1)
    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
from tokenmill.errors import DownloadError
from tokenmill.hub import download
try:
    download(folder=sys.argv[1], shards=1, progress=False)
except DownloadError as error:
    sys.exit(str(error))
"""


def test_a_disk_that_fills_up_is_an_error_and_leaves_nothing(hub, tmp_path):
    """A limit on the size of files acts like a full disk."""
    hub.commit(REPO, {SHARD: llmc_shard(1, 400_000)})
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "d")], env=env, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert f"{SHARD} (801,024 bytes): File too large" in done.stderr
    assert visible(tmp_path / "d") == {}
    assert partials(tmp_path / "d") == []


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


def test_what_a_killed_run_left_damaged_is_thrown_away(hub, shards, tmp_path):
    """A staged file with a wrong byte in it costs a second download, not a wrong shard."""
    checked = CheckedFiles(tmp_path / "d", REPO)
    digest = hashlib.sha256(shards[SHARD]).hexdigest()
    staged = checked.staged(HubFile(SHARD, len(shards[SHARD]), f"sha256:{digest}"))
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"\xff" * len(shards[SHARD]))

    get(tmp_path / "d", shards=1)

    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}


def test_several_processes_into_one_folder_do_no_harm(hub, shards, tmp_path):
    children = [start_child(tmp_path / "d") for _ in range(3)]

    assert [child.wait(30) for child in children] == [0, 0, 0]
    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}
    assert partials(tmp_path / "d") == []
