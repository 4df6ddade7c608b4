"""Downloads that are killed, stopped, out of room, or not alone in their folder."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from hub.conftest import REPO, llmc_shard
from hub.test_download import FIRST_THREE, get, partials, visible

from tokenmill.hub.partial import PartialFile
from tokenmill.hub.remote_files import HubFile

SHARD = FIRST_THREE[0]

CHILD = """
import sys
from tokenmill.hub import Retry, download
download(folder=sys.argv[1], shards=1, progress=False, retry=Retry(first_wait=0.01))
"""


def start_child(folder):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], env=env)


def test_killed_in_the_middle_the_next_run_resumes(hub, tmp_path):
    big = llmc_shard(1, 400_000)
    hub.commit(REPO, {SHARD: big})
    hold = hub.fault(SHARD, "hold", at=600_000)
    child = start_child(tmp_path / "d")
    assert hold.reached.wait(20)
    wait_until(lambda: any(p.stat().st_size > 250_000 for p in partials(tmp_path / "d")))
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    hold.release.set()
    assert visible(tmp_path / "d") == {}

    get(tmp_path / "d", shards=1)

    assert visible(tmp_path / "d") == {SHARD: big}
    assert partials(tmp_path / "d") == []
    last = hub.bodies(SHARD)[-1].headers["range"]
    assert int(last.removeprefix("bytes=").removesuffix("-")) > 250_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_on_a_dead_line_it_ends_at_once_and_can_resume(hub, tmp_path, number):
    big = llmc_shard(1, 400_000)
    hub.commit(REPO, {SHARD: big})
    hold = hub.fault(SHARD, "hold", at=600_000)
    command = [sys.executable, "-m", "tokenmill", "download", "--shards", "1", "-o", tmp_path / "d"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE)
    assert hold.reached.wait(20)
    wait_until(lambda: any(p.stat().st_size > 250_000 for p in partials(tmp_path / "d")))

    child.send_signal(number)

    assert child.wait(10) == 75  # though the server is silent and the timeout 30 s
    assert child.stderr.read().endswith(b"stopped\n")
    hold.release.set()
    assert visible(tmp_path / "d") == {}
    get(tmp_path / "d", shards=1)
    assert visible(tmp_path / "d") == {SHARD: big}
    assert "range" in hub.bodies(SHARD)[-1].headers


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


def listed(name, files):
    digest = hashlib.sha256(files[name]).hexdigest()
    return HubFile(name, len(files[name]), f"sha256:{digest}")


def test_what_a_killed_run_left_damaged_is_thrown_away(hub, shards, tmp_path):
    """A partial file with a wrong byte in it costs a second download, not a wrong shard."""
    file = HubFile(SHARD, len(shards[SHARD]), "sha256:" + hashlib.sha256(shards[SHARD]).hexdigest())
    left = PartialFile(file, tmp_path / "d/.tokenmill/hub/partial")
    left.write(b"\xff" * 3000)
    left.close()
    os.utime(left.path, (0, 0))  # long ago: its writer is gone

    get(tmp_path / "d", shards=1)

    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}
    ranges = [r.headers.get("range") for r in hub.bodies(SHARD) if r.server == "store"]
    assert ranges == ["bytes=3000-", None]


def test_the_partial_file_of_a_living_process_is_left_alone(hub, shards, tmp_path):
    file = HubFile(SHARD, len(shards[SHARD]), "sha256:" + hashlib.sha256(shards[SHARD]).hexdigest())
    other = PartialFile(file, tmp_path / "d/.tokenmill/hub/partial")
    other.write(shards[SHARD][:3000])
    other.seal()

    get(tmp_path / "d", shards=1)

    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}
    assert other.path.read_bytes() == shards[SHARD][:3000]


def test_several_processes_into_one_folder_do_no_harm(hub, shards, tmp_path):
    children = [start_child(tmp_path / "d") for _ in range(3)]

    assert [child.wait(30) for child in children] == [0, 0, 0]
    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}
    assert partials(tmp_path / "d") == []
