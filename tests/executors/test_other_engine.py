"""Promise: another engine is a class with one method; the example in examples/ is one."""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import flat
import pytest
from executors import odd_tasks
from small_corpus import files_of, write_corpus

import tokenmill
from tokenmill.errors import PrepareError

EXAMPLE = Path(__file__).parents[2] / "examples" / "other_engine.py"


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    from other_engine import FuturesEngine

    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    with FuturesEngine(pool, at_once=3) as engine:
        yield engine


def test_it_runs_every_task_once_and_raises_its_errors(engine):
    tasks = [(n, (n,)) for n in range(50)]

    assert sorted(engine.run(odd_tasks.square, tasks)) == [(n, n * n) for n in range(50)]
    with pytest.raises(PrepareError, match="three is bad"):
        list(engine.run(odd_tasks.fail, tasks))


def test_a_preparation_on_it_has_the_same_bytes(engine, tmp_path):
    write_corpus(tmp_path / "corpus", documents=60)
    settings = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 15_000}
    flat.prepare(tmp_path / "corpus", tmp_path / "expected", workers=1, **settings)

    flat.prepare(tmp_path / "corpus", tmp_path / "out", engine=engine, **settings)

    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")


def test_the_example_runs(tmp_path):
    (tmp_path / "corpus.txt").write_text("some words and some more words\n" * 100)
    source = str(Path(tokenmill.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "corpus.txt", "out"],
        cwd=tmp_path,
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert tokenmill.open(tmp_path / "out").num_tokens > 100
    assert len(EXAMPLE.read_text().splitlines()) <= 60
