"""Tasks run in processes: all results, errors as they were, the dead replaced, none left over."""

import os
import platform
import signal
from pathlib import Path

import pytest
from executors import odd_tasks

from tokenmill.errors import PrepareError
from tokenmill.executors import local
from tokenmill.executors.executor import WorkerDiedError
from tokenmill.executors.local import LocalExecutor
from tokenmill.executors.worker_process import WorkerProcess


@pytest.fixture(autouse=True)
def tasks_are_importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


@pytest.mark.parametrize("workers", [1, 2])
def test_all_results_and_errors_as_they_were(workers):
    with LocalExecutor(workers) as executor:
        results = dict(executor.run(odd_tasks.square, enumerate([(n,) for n in range(20)])))
        assert results == {n: n * n for n in range(20)}
        assert list(executor.run(odd_tasks.square, enumerate([]))) == []
        with pytest.raises(PrepareError, match="three is bad") as failed:
            list(executor.run(odd_tasks.fail, enumerate([(n,) for n in range(9)])))
        assert (failed.value.source, failed.value.hint) == ("three.txt", "leave it out")
        assert dict(executor.run(odd_tasks.square, enumerate([(7,)]))) == {0: 49}  # still of use


def test_processes_are_kept_and_ended():
    with LocalExecutor(2) as executor:
        first = set(
            dict(executor.run(odd_tasks.who, enumerate([(n,) for n in range(30)]))).values()
        )
        again = set(
            dict(executor.run(odd_tasks.who, enumerate([(n,) for n in range(30)]))).values()
        )
        assert again <= first
        assert os.getpid() not in first
    for pid in first:
        assert not Path(f"/proc/{pid}").exists()


def test_a_task_is_asked_for_when_a_worker_is_free():
    taken = []

    def tasks():
        for number in range(6):
            taken.append(number)
            yield (number,)

    with LocalExecutor(2) as executor:
        results = executor.run(odd_tasks.square, enumerate(tasks()))
        first = next(results)
        assert taken == [0, 1]
        assert dict([first, *results]) == {n: n * n for n in range(6)}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_a_worker_keeps_some_memory_and_gives_back_what_is_much():
    """What tasks take over and over stays; more than 256 MiB goes back."""
    with LocalExecutor(2) as executor:
        tasks = enumerate([(200 << 20,), (400 << 20,)])
        kept = dict(executor.run(odd_tasks.memory_after, tasks))

    assert kept[1] < 200 << 20 < kept[0]


@pytest.mark.parametrize("wanted", [1, 2])
def test_workers_that_started_early_run_the_tasks_or_end(wanted):
    local.start_early(3, "executors.odd_tasks")
    early = {worker.process.pid for worker in local._early}
    with LocalExecutor(wanted) as executor:
        executor.get_ready(odd_tasks.who, 5)
        used = {worker.process.pid for worker in executor._pool}
        results = set(
            dict(executor.run(odd_tasks.who, enumerate([(n,) for n in range(30)]))).values()
        )

        assert used < early if wanted > 1 else not used
        assert results <= (used or {os.getpid()})
        assert {pid for pid in early if Path(f"/proc/{pid}").exists()} == used
    assert not any(Path(f"/proc/{pid}").exists() for pid in early)


def test_workers_that_got_ready_run_the_tasks():
    with LocalExecutor(2) as executor:
        executor.get_ready(odd_tasks.who, 5)
        ready = {worker.process.pid for worker in executor._pool}
        assert len(ready) == 2
        assert (
            set(dict(executor.run(odd_tasks.who, enumerate([(n,) for n in range(9)]))).values())
            <= ready
        )


def test_one_that_dies_is_replaced(tmp_path):
    with LocalExecutor(2) as executor:
        tasks = [(str(tmp_path), n) for n in range(6)]
        assert dict(executor.run(odd_tasks.die_once, enumerate(tasks))) == {n: n for n in range(6)}
        for pid in set(
            dict(executor.run(odd_tasks.who, enumerate([(n,) for n in range(9)]))).values()
        ):
            os.kill(pid, signal.SIGKILL)  # while idle
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                pass
        assert dict(executor.run(odd_tasks.square, enumerate([(n,) for n in range(6)]))) == {
            n: n * n for n in range(6)
        }


def test_one_that_dies_again_and_again(tmp_path):
    with (
        LocalExecutor(2) as executor,
        pytest.raises(WorkerDiedError, match=r"died 3 times \(exit code 42\)") as died,
    ):
        list(executor.run(odd_tasks.die_always, enumerate([(str(tmp_path), n) for n in range(6)])))
    assert died.value.task == 2
    assert (tmp_path / "attempts").read_text() == "xxx"


def test_an_answer_that_cannot_travel():
    with LocalExecutor(2) as executor, pytest.raises(RuntimeError, match="cannot send"):
        list(executor.run(odd_tasks.cannot_travel, enumerate([(1,), (2,)])))


def test_no_workers():
    with pytest.raises(ValueError, match="at least 1"):
        LocalExecutor(0)


def test_how_a_worker_ended_is_said():
    by_itself, killed = WorkerProcess(), WorkerProcess()
    by_itself.connection.close()
    by_itself.process.wait()
    killed.process.kill()

    assert (by_itself.stop(), killed.stop()) == ("exit code 0", "signal SIGKILL")
