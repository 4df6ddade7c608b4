"""`tokenmill when`: the steps and checkpoints that trained on a document, against the batches."""

import json
import shutil
import subprocess
import sys

import pytest
from train_runs import TINY, text

import tokenmill
from tokenmill.cli import main
from tokenmill.train import train
from tokenmill.train.run_data import open_run

SETTINGS = {**TINY, "max_iters": 30, "checkpoint_interval": 5, "keep_checkpoints": 20}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of 30 steps that leaves step 3 out, with a checkpoint every 5 steps."""
    folder = tmp_path_factory.mktemp("when")
    source = folder / "text.jsonl"
    lines = text(90).splitlines()
    source.write_text("".join(json.dumps({"text": f"{line} "}) + "\n" for line in lines))
    tokenmill.prepare(source, folder / "data", tokenizer="bytes", val_fraction=0.2, clean=True)
    where = {"dataset_dir": str(folder / "data"), "out_dir": str(folder), "model_name": "run"}
    train({**SETTINGS, **where, "skip_steps": "3"}, quiet=True)
    return folder


def when(run, *words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["when", str(run / "data"), "--run", str(run / "run"), *words, "--json"])
    out, err = capsys.readouterr()
    return end.value.code, json.loads(out) if out else err


def batches(run):
    """The tokens of every step, as a loader of its own serves them."""
    data = tokenmill.open(run / "data")
    loader = tokenmill.BatchLoader(
        data, batch_size=SETTINGS["global_batch_size"], block_size=SETTINGS["block_size"], seed=1337
    )
    return data, [loader.batch(step) for step in range(31)]


def steps_with(data, served, document):
    """The steps with a target in the document, one row after the other."""
    start, stop = data.document_range(document)
    for batch in served:
        firsts = batch.starts + 1
        if ((firsts < stop) & (firsts + SETTINGS["block_size"] > start)).any() and batch.step != 3:
            yield batch.step


def test_steps_and_checkpoints_are_those_whose_batches_hold_the_document(run, capsys):
    data, served = batches(run)
    late = 0
    for document in range(0, data.num_documents, 5):
        code, found = when(run, "--document", str(document), capsys=capsys)
        (found,) = found["documents"]

        steps = list(steps_with(data, served, document))
        assert code == 0
        assert sorted({visit["step"] for visit in found["visits"]}) == steps
        # step_00000005 has trained on the steps 0 to 5 of the data, without 3.
        assert found["checkpoints"] == {
            f"step_{step:08d}": any(s <= step for s in steps) for step in range(5, 31, 5)
        }
        late += not found["checkpoints"]["step_00000005"]
    assert late


def test_documents_are_found_by_their_text(run, capsys):
    data = tokenmill.open(run / "data")
    wanted = [i for i in range(data.num_documents) if "mill" in data.decode(document(data, i))]

    _, found = when(run, "--text", "mill", "--limit", "3", capsys=capsys)
    code, none = when(run, "--text", "never there", capsys=capsys)

    assert found["found"] == len(wanted) > 3
    assert [each["document"] for each in found["documents"]] == wanted[:3]
    assert (code, none["found"]) == (1, 0)


def document(data, number):
    return data.tokens(*data.document_range(number))


def test_steps_to_come_end_with_the_run(run, tmp_path, capsys):
    """At its end none is to come; at step 25 those of the epoch, up to the last of 31."""
    data, served = batches(run)
    block, rows = SETTINGS["block_size"], SETTINGS["global_batch_size"]
    num_windows = (data.num_tokens - 1) // block
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    (tmp_path / "run" / "checkpoints" / "latest").write_text("step_00000025\n")
    seen = set()
    for document in range(data.num_documents):
        _, at_the_end = when(run, "--document", str(document), capsys=capsys)
        _, before = when(tmp_path, "--document", str(document), capsys=capsys)

        start, stop = data.document_range(document)
        expected = {
            batch.step
            for batch in served[26:]
            for row, first in enumerate(batch.starts + 1)
            if first < stop and first + block > start
            if (batch.step * rows + row) // num_windows == 26 * rows // num_windows
        }
        assert at_the_end["documents"][0]["to_come"] == []
        (found,) = before["documents"]
        assert {visit["step"] for visit in found["to_come"]} == expected
        assert list(found["checkpoints"]) == [f"step_{step:08d}" for step in range(5, 26, 5)]
        seen |= expected
    assert 4 * num_windows > 31 * rows  # the epoch does not end before the run
    assert seen == {26, 27, 28, 29, 30}


def test_it_prints_words(run, capsys):
    with pytest.raises(SystemExit):
        main(["when", str(run / "data"), "--run", str(run / "run"), "--text", "mill"])
    out, err = capsys.readouterr()

    assert "trained on in step" in out
    assert "checkpoints that had trained on it: step_" in out
    assert "documents of" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--document", "999"], "has no document 999"),
        (["--document", "1", "--text", "x"], "use one of --document and --text"),
        (["--document", "1", "--source", "wiki"], "source is 'wiki'; known are: data"),
    ],
)
def test_what_is_not_there_is_refused(run, capsys, words, message):
    code, err = when(run, *words, capsys=capsys)

    assert code
    assert message in err


def test_other_data_and_a_folder_without_a_run_are_refused(run, tmp_path, capsys):
    other = tmp_path / "other.npy"
    tokenmill.pretokenize(_file(tmp_path / "other.txt", "other text " * 50), tokenizer="bytes")
    for words, message in (
        ([str(other), "--run", str(run / "run")], "not the data of a source of this run"),
        ([str(run / "data"), "--run", str(tmp_path)], "has no checkpoint"),
    ):
        with pytest.raises(SystemExit):
            main(["when", *words, "--document", "0"])
        assert message in capsys.readouterr().err


def _file(path, content):
    path.write_text(content)
    return path


def test_data_that_was_moved_is_found_by_its_fingerprint(run, tmp_path, capsys):
    moved = tmp_path / "elsewhere"
    (run / "data").rename(moved)
    try:
        with pytest.raises(SystemExit) as end:
            main(["when", str(moved), "--run", str(run / "run"), "--document", "7"])
    finally:
        moved.rename(run / "data")

    assert end.value.code == 0
    assert "document 7 of data" in capsys.readouterr().out


@pytest.fixture
def mixed(run, tmp_path):
    """A run on two sources, and their folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("web", "code"):
        shutil.copytree(run / "data", folder / name)
    tokenmill.prepare(
        _file(tmp_path / "code.txt", text(40)), folder / "code", tokenizer="bytes", overwrite=True
    )
    sources = {name: str(folder / name) for name in ("web", "code")}
    where = {"out_dir": str(tmp_path), "model_name": "run", "weights": "web=0.5,code=0.5"}
    mixture = ",".join(f"{name}={path}" for name, path in sources.items())
    train({**SETTINGS, "max_iters": 5, **where, "mixture": mixture}, quiet=True)
    return folder


def when_of(folder, source):
    return ["when", str(folder / source), "--run", str(folder / "run"), "--document", "0"]


@pytest.mark.parametrize(
    ("moves", "given"),
    [
        ({"code": "elsewhere"}, "elsewhere"),
        ({"code": "new/code", "web": "new/web"}, "new/code"),
    ],
)
def test_a_source_of_a_mixture_that_was_moved_is_found(mixed, capsys, moves, given):
    for name in moves:
        (mixed.parent / moves[name]).parent.mkdir(exist_ok=True)
        (mixed / name).rename(mixed.parent / moves[name])

    with pytest.raises(SystemExit) as end:
        main(when_of(mixed.parent, given))

    assert end.value.code == 0, capsys.readouterr().err
    assert "document 0 of code" in capsys.readouterr().out


def test_sources_of_a_mixture_that_are_nowhere_are_refused(mixed, capsys):
    (mixed / "code").rename(mixed.parent / "code")
    (mixed / "web").rename(mixed.parent / "crawl")

    with pytest.raises(SystemExit) as end:
        main(when_of(mixed.parent, "code"))

    assert end.value.code == 13
    assert "the saved data" in capsys.readouterr().err


def test_a_report_shows_how_the_run_used_each_shard(run, tmp_path):
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit) as end:
        main(["view", str(run / "data"), "--run", str(run / "run"), "--save", str(page), "-q"])

    (use,) = open_run(run / "run").loader.usage()
    assert end.value.code == 0
    assert use.samples == 31 * SETTINGS["global_batch_size"]
    assert "Use of the shards" in page.read_text()
    for shard in use.shards:
        assert f"{shard.file}: {shard.epochs:.4g} times" in page.read_text()


def test_it_needs_no_torch(run):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tokenmill.cli import main\n"
        f"main(['when', {str(run / 'data')!r}, '--run', {str(run / 'run')!r}, '--document', '1'])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
