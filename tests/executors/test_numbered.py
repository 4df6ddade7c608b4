"""Promise: numbered jobs make the same bytes as one machine, whatever their number and order."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import flat
import pytest
from preparation.runs import done_tasks
from small_corpus import files_of, write_corpus

import tokenmill
from tokenmill.base.lock import hold_lock
from tokenmill.cli import main
from tokenmill.errors import LockedError, NotADatasetError, SettingsMismatchError
from tokenmill.executors.numbered import JobPart, to_array
from tokenmill.preparation import jobs
from tokenmill.preparation.workspace.work_folder import WorkFolder

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 15_000}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "corpus")
    return folder / "corpus"


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    """Made by one worker; two workers make the same."""
    out = tmp_path_factory.mktemp("expected")
    for workers in (1, 2):
        flat.prepare(corpus, out / str(workers), workers=workers, **SETTINGS)
    assert files_of(out / "1") == files_of(out / "2")
    return files_of(out / "1")


def command(*arguments):
    """The command's exit code, in this process."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def run_rounds(out, numbers):
    """Every part of N, again and again, until all tasks are done."""
    rounds = 0
    while not jobs.status(out).complete:
        rounds += 1
        assert rounds < 20
        for number in numbers:
            jobs.work(out, number)


def test_an_array_of_3_finished_as_an_array_of_5(corpus, expected, tmp_path):
    plan = flat.plan(corpus, tmp_path / "out", **SETTINGS)
    assert len(plan.units) > 10

    for number in range(3):
        jobs.work(tmp_path / "out", JobPart(number, 3))
    run_rounds(tmp_path / "out", [JobPart(number, 5) for number in range(5)])
    jobs.finish(tmp_path / "out", workers=1)

    assert files_of(tmp_path / "out") == expected


def test_parts_run_twice_at_once_and_out_of_order(corpus, expected, tmp_path):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)
    numbers = [JobPart(number, 4) for number in range(4)] * 2
    random.Random(7).shuffle(numbers)
    source = os.path.join(os.path.dirname(tokenmill.__file__), "..")

    def work(part):  # in a process of its own, as on another machine
        arguments = ["prepare", "work", str(tmp_path / "out"), "--part", str(part), "--quiet"]
        done = subprocess.run(
            [sys.executable, "-m", "tokenmill", *arguments],
            env={**os.environ, "PYTHONPATH": source},
        )
        return done.returncode

    with ThreadPoolExecutor(4) as at_once:
        assert set(at_once.map(work, numbers)) == {0}
    run_rounds(tmp_path / "out", [JobPart(1, 2), JobPart(0, 2)])
    jobs.finish(tmp_path / "out", workers=1)

    assert files_of(tmp_path / "out") == expected


def test_parts_that_run_at_the_same_time_can_wait_for_each_other(corpus, expected, tmp_path):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)

    with ThreadPoolExecutor(2) as at_once:
        reports = at_once.map(lambda k: jobs.work(tmp_path / "out", JobPart(k, 2), wait=60), (0, 1))

    assert all(report.complete for report in reports)
    jobs.finish(tmp_path / "out", workers=1)
    assert files_of(tmp_path / "out") == expected


def test_a_folder_is_named_from_where_one_is(corpus, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flat.plan(corpus, "out", **SETTINGS)
    jobs.work("out", JobPart(0, 2))
    jobs.finish("out", workers=1)

    assert files_of(tmp_path / "out") == expected


def test_finish_alone_does_everything_that_is_missing(corpus, expected, tmp_path):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)
    jobs.work(tmp_path / "out", JobPart(1, 3))

    jobs.finish(tmp_path / "out", workers=2)

    assert files_of(tmp_path / "out") == expected


def test_a_folder_has_one_name_or_another(corpus, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flat.plan(corpus, "out", **SETTINGS)

    jobs.finish("./out")

    assert files_of(tmp_path / "out") == expected


@pytest.mark.parametrize("dedup", ["documents", "none"])
def test_every_kind_of_deduplication_can_be_shared(corpus, tmp_path, dedup):
    flat.prepare(corpus, tmp_path / "expected", dedup=dedup, workers=1, **SETTINGS)

    flat.plan(corpus, tmp_path / "out", dedup=dedup, **SETTINGS)
    run_rounds(tmp_path / "out", [JobPart(1, 2), JobPart(0, 2)])
    jobs.finish(tmp_path / "out", workers=1)

    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")


def test_adding_and_replacing_can_be_shared(corpus, tmp_path):
    more = tmp_path / "more"
    write_corpus(more, seed=2, documents=60)
    for out in ("expected", "out"):
        flat.prepare(corpus, tmp_path / out, workers=1, **SETTINGS)
    flat.prepare(more, tmp_path / "expected", append=True, workers=1, unit_bytes=15_000)

    flat.plan(more, tmp_path / "out", append=True, unit_bytes=15_000)
    run_rounds(tmp_path / "out", [JobPart(0, 2), JobPart(1, 2)])
    jobs.finish(tmp_path / "out", workers=1)

    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")

    flat.prepare(more, tmp_path / "alone", workers=1, **SETTINGS)
    flat.plan(more, tmp_path / "out", overwrite=True, **SETTINGS)
    run_rounds(tmp_path / "out", [JobPart(0, 1)])
    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")  # until it is finished
    jobs.finish(tmp_path / "out", workers=1)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "alone")


def test_a_driver_killed_and_started_again(corpus, expected, tmp_path):
    code = (
        "import flat\n"
        f"flat.prepare({str(corpus)!r}, {str(tmp_path / 'out')!r}, workers=2, **{SETTINGS!r})"
    )
    source = os.path.join(os.path.dirname(tokenmill.__file__), "..")
    tests = os.path.dirname(flat.__file__)
    work = tmp_path / "out" / ".preparation"
    driver = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{source}:{tests}"}
    )
    deadline = time.monotonic() + 60
    while driver.poll() is None and len(done_tasks(work, "units")) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    driver.send_signal(signal.SIGKILL)
    driver.wait()

    flat.prepare(corpus, tmp_path / "out", workers=2, **SETTINGS)

    assert files_of(tmp_path / "out") == expected


def test_work_after_the_end_has_nothing_to_do(corpus, tmp_path, capsys):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)
    jobs.finish(tmp_path / "out", workers=1)
    before = files_of(tmp_path / "out")

    assert command("prepare", "work", tmp_path / "out", "--part", "0/3") == 0
    assert command("prepare", "finish", tmp_path / "out") == 0
    assert command("prepare", "status", tmp_path / "out") == 0

    assert files_of(tmp_path / "out") == before
    printed = capsys.readouterr()
    assert "finished" in printed.out
    assert printed.err.count("nothing to do") == 2


def test_status_names_what_is_missing(corpus, tmp_path, capsys):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)
    for number in (0, 2, 3):
        jobs.work(tmp_path / "out", JobPart(number, 6))

    assert command("prepare", "status", tmp_path / "out", "--parts", "6") == 0

    printed = capsys.readouterr().out
    assert "missing parts of 6: 1,4-5" in printed
    assert printed.startswith("encode ")


def test_a_part_does_not_work_under_the_hands_of_a_local_run(corpus, tmp_path):
    flat.plan(corpus, tmp_path / "out", **SETTINGS)

    with (
        hold_lock(WorkFolder(tmp_path / "out").lock_file),
        pytest.raises(LockedError, match="is being written"),
    ):
        jobs.work(tmp_path / "out", JobPart(0, 1))


def test_what_cannot_be_is_refused_in_words(corpus, tmp_path, capsys):
    with pytest.raises(NotADatasetError, match="no plan"):
        jobs.work(tmp_path / "nothing", JobPart(0, 1))
    for wrong in ("3/3", "x/2", "1", "-1/2", "1/0"):
        with pytest.raises(ValueError, match=r"part"):
            JobPart.parse(wrong)
    flat.plan(corpus, tmp_path / "out", **SETTINGS)
    with pytest.raises(SettingsMismatchError, match="val_fraction"):
        flat.plan(corpus, tmp_path / "out", val_fraction=0.3, **SETTINGS)
    assert command("prepare", "work", tmp_path / "out") == 2
    assert "--part" in capsys.readouterr().err


def test_an_input_named_like_a_job_can_be_given_with_its_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "plan").write_text("some words to be tokenized, and no job\n")
    monkeypatch.chdir(tmp_path)

    assert command("prepare", "./plan", "-o", "out", "--tokenizer", "bytes", "--json") == 0
    assert Path("out/dataset_metadata.json").exists()
    assert command("prepare", "plan", "./plan", "-o", "other", "--tokenizer", "bytes") == 0
    assert "1 unit, " in capsys.readouterr().out
    assert not Path("other/dataset_metadata.json").exists()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([5, 4, 3], "3-5"), ([0, 3, 4, 5, 9, 9], "0,3-5,9"), ([0, 2], "0,2")],
)
def test_array_syntax(numbers, text):
    assert to_array(numbers) == text
    expanded = []
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        expanded += range(int(first), int(last or first) + 1)
    assert expanded == sorted(set(numbers))
