"""However a run ends, the same command again gives the bytes of a run that was left alone."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.runs import (
    assert_nothing_stray,
    children_of,
    done_tasks,
    run,
    start_and_hold,
    wait_until,
)
from system_faults import RENAMES, injecting, needs_strace


@pytest.fixture(scope="module")
def arguments(corpus, small):
    tokenizer, _ = small
    shards = {"unit_bytes": 8000, "tokens_per_shard": 10_000}
    return {"inputs": corpus, "clean": True, "dedup": "lines", **shards, **tokenizer}


@pytest.fixture(scope="module")
def untouched(arguments, tmp_path_factory):
    """Hashes of all files of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("untouched") / "out"
    prepare(out_dir=out, workers=1, **arguments)
    return hashes_of_files(out)


def check_goes_on(out, arguments, untouched, **options):
    assert not (out / "dataset_metadata.json").exists()
    code, errors = run({"out_dir": out, "workers": 1, **arguments, **options})
    assert (code, errors) == (0, "")
    assert hashes_of_files(out) == untouched
    assert_nothing_stray(out)


@needs_strace
def test_killed_at_renames_one_after_another(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": 1, **arguments}
    for number in (1, 3, 8, 25, 60):
        code, _ = run(wanted, injecting(f"signal=SIGKILL:when={number}", RENAMES))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        check_goes_on(out, arguments, untouched)
    assert hashes_of_files(out) == untouched
    assert_nothing_stray(out)


@pytest.mark.parametrize(("workers", "at"), [(1, "encode 3"), (2, "lines 3")])
def test_killed_with_its_workers(arguments, untouched, tmp_path, workers, at):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": workers, **arguments}
    process = start_and_hold(wanted, at, start_new_session=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    check_goes_on(out, arguments, untouched)


def test_workers_end_with_their_parent(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    process = start_and_hold({"out_dir": out, "workers": 2, **arguments}, "lines 2")
    workers = children_of(process.pid)
    process.kill()
    process.communicate()
    for worker in workers:
        while Path(f"/proc/{worker}/stat").exists() and not is_zombie(worker):
            pass
    check_goes_on(out, arguments, untouched)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_asked_to_stop(arguments, untouched, tmp_path, number, workers):
    out = tmp_path / "out"
    process = start_and_hold({"out_dir": out, "workers": workers, **arguments}, "lines 2")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75
    assert f"stopped by {number.name}" in errors
    assert "the same command resumes" in errors
    check_goes_on(out, arguments, untouched)


def test_a_killed_worker_is_replaced(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    process = start_and_hold({"out_dir": out, "workers": 2, **arguments}, "lines 2")
    os.kill(min(children_of(process.pid)), signal.SIGKILL)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0
    assert hashes_of_files(out) == untouched


def test_a_worker_that_hangs_is_waited_for_until_the_run_is_stopped(arguments, untouched, tmp_path):
    """How long a task may take nobody knows; but a hung one does not outlive the run."""
    out = tmp_path / "out"
    process = start_and_hold({"out_dir": out, "workers": 2, **arguments}, "lines 2")
    hung = min(children_of(process.pid))
    os.kill(hung, signal.SIGSTOP)
    process.stdin.close()
    process.stdin = None  # `communicate` would close it again
    units = len(json.loads((out / ".preparation" / "plan.json").read_bytes())["units"])
    assert wait_until(process, out / ".preparation", "lines", units - 1)
    assert process.poll() is None
    assert not done_tasks(out / ".preparation", "units")

    process.send_signal(signal.SIGTERM)

    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "the same command resumes" in errors
    assert not Path(f"/proc/{hung}").exists()
    check_goes_on(out, arguments, untouched)


def test_no_room_for_a_file(arguments, untouched, tmp_path):
    out = tmp_path / "out"

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))

    code, errors = run({"out_dir": out, "workers": 1, **arguments}, preexec_fn=limit)
    assert code == 1
    assert "bytes are free" in errors
    assert "the same command resumes" in errors
    check_goes_on(out, arguments, untouched)


@needs_strace
@pytest.mark.parametrize("call", ["write", RENAMES, "fsync"])
def test_a_full_disk(arguments, untouched, tmp_path, call):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": 1, **arguments}
    when = {"write": "30", RENAMES: "9+", "fsync": "4+"}[call]
    code, errors = run(wanted, injecting(f"error=ENOSPC:when={when}", call))
    assert code == 1
    assert "No space left on device" in errors
    assert "bytes are free" in errors
    check_goes_on(out, arguments, untouched)


def test_a_part_that_was_damaged_is_made_again(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": 1, **arguments}
    process = start_and_hold(wanted, "encode 4", start_new_session=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    part = next(iter(sorted((out / ".preparation" / "units").glob("*.tokens"))))
    part.write_bytes(part.read_bytes()[:-2])  # as a machine that lost its power leaves it
    check_goes_on(out, arguments, untouched)


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
