"""Edits of a run: asked for between runs and while it trains, taken by all ranks, on record."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from train_runs import ROOT, TINY, command, environ_of_ranks, losses, text

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.cli import main
from tokenmill.edits import Add, Ban, Reweight, Skip
from tokenmill.errors import (
    MismatchError,
    OrderMismatchError,
    SettingsMismatchError,
    TokenmillError,
)
from tokenmill.train import train
from tokenmill.train.edits_file import RunEdits, edits_of_run, words_of
from tokenmill.train.run_data import open_run
from tokenmill.train.run_page import trained_part

SETTINGS = {
    **TINY,
    "max_iters": 20,
    "decay_iters": 60,
    "checkpoint_interval": 5,
    "keep_checkpoints": 100,
    "eval_interval": 0,
    "learning_rate": 0.001,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Two datasets, and a run of 20 steps on the first one."""
    folder = tmp_path_factory.mktemp("edits")
    for name, word in (("web", "mill"), ("crawl", "river")):
        lines = text(900).replace("mill", word).splitlines()
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": t}) + "\n" for t in lines)
        )
        tokenmill.prepare(
            folder / f"{name}.jsonl",
            folder / name,
            tokenizer="bytes",
            dedup="none",
            tokens_per_shard=8000,
        )
    train(settings_in(folder), quiet=True)
    return folder


def settings_in(folder, out_dir=None, **more):
    where = {"dataset_dir": str(folder / "web"), "out_dir": str(out_dir or folder)}
    return {**SETTINGS, **where, "model_name": "run", **more}


@pytest.fixture
def run(base, tmp_path):
    """A copy of that run, to be edited."""
    shutil.copytree(base / "run", tmp_path / "run")
    return tmp_path / "run"


def edits(run, *words):
    """`tokenmill edits RUN ...`: its exit code."""
    with pytest.raises(SystemExit) as end:
        main(["edits", str(run), *words])
    return end.value.code


def read_entries(run):
    """What became of the edits that were asked for."""
    return edits_of_run(run)["edits"]


def plain_loader(base, *edited):
    """What such a run serves, by a loader that was edited in Python."""
    loader = BatchLoader(
        tokenmill.open(base / "web"), batch_size=8, block_size=32, seed=SETTINGS.get("seed", 1337)
    )
    for step, edit in edited:
        loader.edit(edit, at=step)
    return loader


def same_order(run, loader, steps=range(0, 60, 3)):
    served = open_run(run).loader
    return all(
        np.array_equal(served.batch(step).tokens, loader.batch(step).tokens) for step in steps
    )


def test_edits_between_runs_hold_from_the_next_step_on(base, run, capsys):
    half = {"data": 0.5, "crawl": 0.5}
    add = ["--add", f"crawl={base / 'crawl'}", "--weights", "data=0.5,crawl=0.5"]
    assert edits(run, *add, "--note", "asked for by Ada") == 0
    assert edits(run, "--skip", "24-26") == 0
    capsys.readouterr()
    assert edits(run) == 0
    assert capsys.readouterr().out.count("waits for the next checkpoint or start") == 2

    train(settings_in(base, run.parent, max_iters=40), resume=True, quiet=True)

    crawl = Add("crawl", tokenmill.open(base / "crawl"), weights=half)
    assert same_order(run, plain_loader(base, (20, crawl), (24, Skip(steps=(24, 27)))))
    assert losses(run)[:20] == losses(base / "run")
    first, second = read_entries(run)
    assert (first["kind"], first["read_at_step"]) == ("add", 20)
    assert first["note"] == "asked for by Ada"
    assert words_of(second) == "skip, steps 24 to 26"
    assert edits(run) == 0
    shown = capsys.readouterr().out
    assert "from step 20 on: add, name crawl, data " in shown
    assert "; note asked for by Ada" in shown
    assert "waits" not in shown


def test_a_run_on_a_mixture_is_edited_resumed_and_looked_up(base, tmp_path, capsys):
    paths = {name: str(base / name) for name in ("web", "crawl")}
    settings = {
        **settings_in(base, tmp_path, max_iters=10, eval_interval=10, eval_batches=1),
        "dataset_dir": None,
        "mixture": ",".join(f"{name}={path}" for name, path in paths.items()),
        "weights": "web=0.7,crawl=0.3",
    }
    run = tmp_path / "run"
    result = train(settings, quiet=True)
    assert edits(run, "--reweight", "web=0,crawl=1", "--note", "ablation") == 0
    again = {"out_dir": str(tmp_path), "model_name": "run"}
    train({**again, "max_iters": 20}, resume=True, quiet=True)

    sources = {name: tokenmill.open(path) for name, path in paths.items()}
    mixture = Mixture(sources, weights={"web": 0.7, "crawl": 0.3})
    plain = BatchLoader(mixture, batch_size=8, block_size=32, seed=1337)
    plain.edit(Reweight({"web": 0, "crawl": 1}), at=10)
    assert same_order(run, plain, range(30))
    assert list(result.val_losses) == ["val_web", "val_crawl"]
    about = json.loads((run / "data.json").read_bytes())
    assert list(about) == ["train_web", "train_crawl", "val_web", "val_crawl"]
    steps = [visit.step for visit in plain.when(3, source="crawl", epochs=[0])]
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["when", paths["crawl"], "--document", "3", "--run", str(run), "--json"])
    (shown,) = json.loads(capsys.readouterr().out)["documents"]
    assert shown["source"] == "crawl"
    shown_steps = [visit["step"] for visit in [*shown["visits"], *shown["to_come"]]]
    assert shown_steps == [step for step in steps if step < 20]  # the run ends there
    with pytest.raises(SettingsMismatchError, match="weights"):
        train({**again, "weights": "web=1,crawl=1"}, resume=True, quiet=True)


def test_the_use_of_one_shard_is_said_in_words():
    loader = BatchLoader(tokenmill.from_array(np.arange(101)), batch_size=2, block_size=10)
    for _ in range(3):
        next(loader)
    page = trained_part(loader)

    assert "6 samples of data, 0.6 epochs. The tokens of a shard were a target 0.6 to 0.6" in page


def test_a_mixture_of_different_tokenizers_is_refused(base, tmp_path):
    np.arange(9000, dtype=np.uint16).tofile(tmp_path / "ids.bin")
    mixture = f"web={base / 'web'},ids={tmp_path / 'ids.bin'}"
    with pytest.raises(MismatchError, match="tokenizers: train_web bytes, train_ids gpt2"):
        train(
            {**SETTINGS, "mixture": mixture, "weights": "web=1,ids=1"},
            out_dir=str(tmp_path),
            dtype="uint16",
            tokenizer=None,
            quiet=True,
        )


def test_a_banned_document_is_not_trained_on_after_the_ban(base, run, tmp_path, capsys):
    data = tokenmill.open(base / "web")
    (tmp_path / "forget.txt").write_text("".join(f"{n}\n" for n in range(0, data.num_documents, 2)))
    assert edits(run, "--ban", "3,11-13", "--note", "request 12") == 0
    assert edits(run, "--ban", str(tmp_path / "forget.txt")) == 0

    settings = settings_in(base, run.parent, max_iters=150, checkpoint_interval=1000)
    train(settings, resume=True, quiet=True)

    loader = open_run(run).loader
    assert loader.epoch >= 1
    for document in (3, 4, 11, 13):
        assert all(visit.step < 20 for visit in loader.when(document))
    assert max(visit.step for visit in loader.when(5)) >= 20
    assert edits(run) == 0
    shown = capsys.readouterr().out
    assert "from step 20 on: ban, documents [3, [11, 13]]" in shown
    assert f"ban, documents {tmp_path / 'forget.txt'}" in shown

    (tmp_path / "forget.txt").write_text("1\n")
    with pytest.raises(OrderMismatchError, match=r"forget\.txt is not what it was"):
        train({**settings, "max_iters": 151}, resume=True, quiet=True)


def test_an_edit_is_taken_once_however_often_a_run_is_killed_and_resumed(base, run):
    assert edits(run, "--skip", "22-23") == 0
    settings = settings_in(base, run.parent)

    train({**settings, "max_iters": 24}, resume=True, quiet=True)
    for steps in (26, 28):
        train({**settings, "max_iters": steps}, resume=True, quiet=True)

    assert len(open_run(run).loader.edits) == 1
    assert len(read_entries(run)) == 1
    assert same_order(run, plain_loader(base, (22, Skip(steps=(22, 24)))))

    # From a checkpoint before it was taken: it is taken again.
    (run / "checkpoints" / "latest").write_text("step_00000015\n")
    train({**settings, "max_iters": 21}, resume=True, quiet=True)
    assert [entry["read_at_step"] for entry in read_entries(run)] == [15]
    assert same_order(run, plain_loader(base, (22, Skip(steps=(22, 24)))))


class Asks:
    """A stop request that stops nothing, and asks the run for edits after some steps."""

    def __init__(self, run, lines):
        self.run, self.lines, self.looks = run, lines, 0

    @property
    def asked(self):
        self.looks += 1  # a step looks twice: before it, and before its forward pass
        for line in self.lines.pop(self.looks / 2, []):
            with (self.run / "edits.jsonl").open("a") as file:
                file.write(f"{line}\n")


def test_edits_while_it_trains_are_taken_at_a_checkpoint_and_wrong_ones_set_aside(
    base, run, monkeypatch, capsys
):
    from contextlib import contextmanager

    from tokenmill.train import start

    wrong = [
        '{"kind": "reweight", "weights": {"web": 1}}',
        '{"kind": "skip", "steps": [3, 5], "note": "too late"}',
        '{"kind": "skip", "stops": [30, 35]}',
        "not JSON",
        '{"kind": "add", "name": "x", "data": "/not/there", "weights": {"data": 1, "x": 1}}',
        '{"kind": "ban", "documents": [[1]]}',
        '{"kind": "ban", "documents": [[0, 10000000000000]]}',
        '{"kind": "reweight", "weights": {"data": "1e999999999"}}',
        '{"kind": "ban", "documents": "/dev/zero"}',
    ]
    right = ['{"kind": "skip", "steps": [30, 35]}', ""]
    asks = Asks(run, {3: wrong, 8: right})

    @contextmanager
    def listen():
        yield asks

    monkeypatch.setattr(start, "listen_for_stop", listen)
    train(settings_in(base, run.parent, max_iters=40), resume=True)

    *refused, taken = read_entries(run)
    assert [entry["read_at_step"] for entry in refused] == [25] * 9
    assert [entry["line"] for entry in refused] == wrong
    assert (taken["read_at_step"], taken["steps"]) == (30, [30, 35])
    reasons = ["one source", "past", "stops", "not the JSON", "/not/there", "a document is [1]"]
    reasons += ["document 10000000000000", "'1e999999999'; it must be a number", "is a device"]
    for entry, words in zip(refused, reasons, strict=True):
        assert words in entry["refused"], entry
    said = capsys.readouterr().err
    assert said.count("is refused:") == 9
    assert "Edit: skip, steps 30 to 34" in said
    assert same_order(run, plain_loader(base, (30, Skip(steps=(30, 35)))))


def test_a_wrong_request_refuses_the_start(base, run):
    (run / "edits.jsonl").write_text('{"kind": "cap", "epochs": {"wiki": 2}}\n')

    with pytest.raises(TokenmillError, match=r"edits\.jsonl, edit 1 is refused: .*wiki"):
        train(settings_in(base, run.parent, max_iters=30), resume=True, quiet=True)

    (run / "edits.jsonl").write_text("")
    assert train(settings_in(base, run.parent, max_iters=22), resume=True, quiet=True).step == 22


def test_lines_that_were_removed_are_missed(base, run, capsys):
    settings = settings_in(base, run.parent, max_iters=21)
    for steps in ("22-23", "26-27"):
        assert edits(run, "--skip", steps) == 0
    train(settings, resume=True, quiet=True)
    asked = (run / "edits.jsonl").read_text()

    (run / "edits.jsonl").write_text(asked.splitlines()[0] + "\n\n")
    with pytest.raises(TokenmillError, match="has 1 edit, and the run has read 2 before"):
        train({**settings, "max_iters": 22}, resume=True, quiet=True)
    assert edits(run, "--skip", "30-31") != 0
    assert "put back those that were there" in capsys.readouterr().err

    (run / "edits.jsonl").write_text(asked + '{"kind": "skip", "steps": [28, 29]}')  # no line feed
    assert edits(run, "--skip", "30-31") == 0
    train({**settings, "max_iters": 22}, resume=True, quiet=True)
    assert [entry["steps"] for entry in read_entries(run)] == [
        [22, 24],
        [26, 28],
        [28, 29],
        [30, 32],
    ]


def test_a_run_resumes_on_data_that_was_appended_to_and_this_is_on_record(base, run, tmp_path):
    data = shutil.copytree(base / "web", tmp_path / "web")
    tokenmill.prepare(base / "crawl.jsonl", data, tokenizer="bytes", dedup="none", append=True)
    more = tokenmill.open(data).num_tokens - tokenmill.open(base / "web").num_tokens

    train(settings_in(tmp_path, tmp_path, max_iters=22), resume=True, quiet=True)

    (entry,) = read_entries(run)
    assert (entry["kind"], entry["source"], entry["read_at_step"]) == ("grow", "data", 20)
    loader = open_run(run).loader
    assert more > 0 < loader.usage(600)[0].shards[-1].used
    assert same_order(run, plain_loader(base), range(60))  # the first epoch ends as it began


def test_a_run_ends_where_its_data_ends(base, run):
    per_epoch = len(plain_loader(base).windows())
    assert edits(run, "--cap", "data=1", "--then", "end") == 0

    settings = settings_in(base, run.parent, max_iters=10_000, checkpoint_interval=1000)
    result = train(settings, resume=True, quiet=True)

    assert result.step == per_epoch // SETTINGS["global_batch_size"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reweight", "web=1"], "one source"),
        (["--skip", "3-4"], "past"),
        (["--skip", "x"], "--skip is 'x'; expected numbers such as"),
        (["--reweight", "web"], "--reweight is 'web'"),
        (["--cap", "data=lots"], "'lots' is not a number"),
        (["--add", "a=/not/there", "--weights", "a=1,data=1"], "/not/there"),
        (["--add", "a=/not/there"], "--add goes with the weights of all sources"),
        (["--weights", "a=1"], "--add goes with the weights"),
        (["--source", "data"], "--source goes with --ban"),
        (["--ban", "nothing.txt"], "--ban is 'nothing.txt'; expected numbers such as"),
        (["--ban", "1-"], "--ban is '1-'; expected numbers such as"),
        (["--ban", "5-3"], "--ban is '5-3'; expected numbers such as"),
        (["--ban", "9" * 5000], f"--ban is '{'9' * 60}'; expected numbers such as"),
        (["--ban", "9" * 20], f"the number of a document is {'9' * 20}; it must be"),
        (["--ban", "0-99999999999999"], "document 99999999999999 of a dataset of"),
        (["--ban", "/dev/zero"], "/dev/zero is a device, not a regular file"),
        (["--cap", "data=4611686018427387904"], "the cap of 'data' is 4611686018427387904"),
        (["--reweight", "data=1e999999999"], "each must be a finite number"),
    ],
)
def test_the_command_refuses_what_the_run_would_refuse(run, capsys, words, message):
    assert edits(run, *words) != 0
    assert message in capsys.readouterr().err
    assert not (run / "edits.jsonl").exists()


def test_a_pipe_is_no_file_of_banned_documents(run, tmp_path, capsys):
    os.mkfifo(tmp_path / "banned.txt")

    assert edits(run, "--ban", str(tmp_path / "banned.txt")) != 0
    assert "banned.txt is a named pipe, not a regular file" in capsys.readouterr().err


def test_a_line_costs_as_much_after_many_others_as_after_few(run):
    """The lines of the package's code that run, those of each round of a loop among them."""
    loader = open_run(run).loader
    taken = RunEdits(run, loader, is_main=True, share=lambda text: [text], say=lambda text: None)
    num_run = 0

    def look(frame, event, _):
        nonlocal num_run
        num_run += event == "line"
        return look if "/tokenmill/" in frame.f_code.co_filename else None

    def work_of(numbers):
        nonlocal num_run
        num_run = 0
        with (run / "edits.jsonl").open("a") as file:
            file.writelines(f'{{"kind": "ban", "documents": [{n}]}}\n' for n in numbers)
        sys.settrace(look)
        try:
            taken.take()
        finally:
            sys.settrace(None)
        return num_run

    first = work_of(range(10))
    loader.edit(*(Ban(documents=[n]) for n in range(800)))

    assert work_of(range(10)) < 1.2 * first


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert edits(tmp_path / "none") != 0
    assert "not the folder of a run" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def wait_for(condition, process):
    """Return when the condition holds (by looking), or when the process has ended."""
    while process.poll() is None and not condition():
        select.select([], [], [], 0.02)


def test_stopped_edited_and_resumed_on_two_ranks_with_one_more_edit_while_they_train(base, run):
    """Of the two sources one is stopped, the other one is all that is trained on after it."""
    assert edits(run, "--add", f"crawl={base / 'crawl'}", "--weights", "data=1,crawl=1") == 0
    assert edits(run, "--reweight", "data=0,crawl=1", "--at", "30", "--note", "data is bad") == 0

    settings = settings_in(base, run.parent, max_iters=100_000)
    two = [command(settings, "--resume", **environ) for environ in environ_of_ranks(2)]
    wait_for(lambda: len(losses(run)) >= 35, two[0])
    edits(run, "--skip", "99000-99009", "--note", "while it trains")
    wait_for(lambda: len(read_entries(run)) == 3, two[0])
    two[1].send_signal(signal.SIGTERM)
    errors = [process.communicate(timeout=120)[1] for process in two]

    assert [process.returncode for process in two] == [75, 75], errors
    crawl = Add("crawl", tokenmill.open(base / "crawl"), weights={"data": 1, "crawl": 1})
    only = Reweight({"data": 0, "crawl": 1})
    assert same_order(run, plain_loader(base, (20, crawl), (30, only)), range(60))
    loader = open_run(run).loader
    assert loader.usage(20, shards=False)[1].samples == 0
    assert loader.usage(30, shards=False)[0] == loader.usage(shards=False)[0]
    assert [entry["kind"] for entry in read_entries(run)] == ["add", "reweight", "skip"]
    page = (run / "run.html").read_text()
    assert "add, name crawl" in page
    assert "data is bad" in page
    assert page.count('class="edit"') == 2  # lines in the picture, at the steps 20 and 30


DIFFERENT = """
import os, sys
from pathlib import Path
import numpy as np, torch
from tokenmill import from_array
from tokenmill.torch import TorchLoader
from tokenmill.train.collectives import process_group, texts_of_ranks
from tokenmill.train.edits_file import RunEdits

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
os.chdir(folder / f"rank{rank}")  # a relative path is another one on each rank
with process_group(torch.device("cpu")):
    loader = TorchLoader(from_array(np.arange(5000)), batch_size=2, block_size=8)
    edits = RunEdits(folder, loader, is_main=rank == 0, share=texts_of_ranks, say=print)
    edits.start()
    with (folder / "edits.jsonl").open("a") as file:
        if rank == 0:
            weights = '"weights": {"data": 1, "x": 1}'
            file.write('{"kind": "add", "name": "x", "data": "only.npy", %s}\\n' % weights)
            file.write('{"kind": "add", "name": "x", "data": "both.npy", %s}\\n' % weights)
            file.write('{"kind": "skip", "steps": [5, 7]}\\n')
    edits.take()
    assert loader.names == ("data",)
    assert [edit["kind"] for edit in loader.edits] == ["skip"]
    other = TorchLoader(from_array(np.arange(5000 + rank)), batch_size=2, block_size=8)
    try:
        RunEdits(folder, other, is_main=rank == 0, share=texts_of_ranks, say=print).start()
    except Exception as error:
        print(error)
"""


def test_an_edit_that_is_not_the_same_on_all_ranks_is_kept_by_none(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        np.save(tmp_path / f"rank{rank}" / "both.npy", np.arange(900 + rank))
    np.save(tmp_path / "rank0" / "only.npy", np.arange(900))
    two = [
        subprocess.Popen(
            [sys.executable, "-c", DIFFERENT, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environ in environ_of_ranks(2)
    ]
    outs = [process.communicate(timeout=120) for process in two]

    assert [process.returncode for process in two] == [0, 0], outs
    said = outs[0][0]
    assert "edit 1 is refused: rank 1: " in said
    assert "edit 2 is refused: rank 0 has order " in said
    assert "the ranks would not train on the same data: rank 0 has order" in said
