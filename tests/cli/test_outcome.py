"""Every command says what it did in the same three ways: words, --quiet, --json."""

import json
import os
import pydoc_data.topics
import re
import subprocess
import sys
import urllib.request

import click
import flat
import numpy as np
import pytest
from click.testing import CliRunner

from tokenmill.cli import tokenmill
from tokenmill.cli.outcome import Outcome, OutcomeCommand, as_flags
from tokenmill.train import start
from tokenmill.train.loop import TrainResult

TEXT = "\n\n".join(list(pydoc_data.topics.topics.values())[:12])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a text and a dataset."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "a.txt").write_text(TEXT)
    flat.prepare(
        folder / "a.txt", folder / "data", tokenizer="bytes", document_is="paragraph", workers=1
    )
    (folder / "tiny.json").write_text(
        '{"n_layer": 1, "n_head": 1, "n_embd": 8, "eval_batches": 1, "sample_tokens": 0}'
    )
    return folder


def calls(folder, out):
    """A call of each command that works, with what its JSON must hold."""
    data, text = f"{folder}/data", f"{folder}/a.txt"
    tiny = f"--config_file {folder}/tiny.json --block_size 16 --batch_size 2 --max_iters 2"
    tiny += " --device cpu"
    return {
        "prepare": (f"prepare {text} -o {out}/d --tokenizer bytes --workers 1", "train_tokens"),
        "plan": (f"prepare plan {text} -o {out}/p --tokenizer bytes", "units"),
        "estimate": (f"prepare {text} -o {out}/e --tokenizer bytes --estimate", "dtype"),
        "pretokenize": (f"pretokenize {text} --force --tokenizer bytes", "files"),
        "retokenize": (f"retokenize {data} {out}/t --tokenizer gpt2 --workers 1", "train_tokens"),
        "convert": (f"convert {data} {out}/c --to npy", "splits"),
        "inspect": (f"inspect {data}", "splits"),
        "show": (f"show {data}", None),
        "show tokens": (f"show tokens {data} 0:9", None),
        "show batch": (f"show batch {data} 0 --block_size 16", None),
        "show text": (f"show text {data} the", None),
        "verify": (f"verify {data} --full", "damaged"),
        "view --save": (f"view {data} --save {out}/r.html", "bytes"),
        "train": (f"train --dataset_dir {data} --out_dir {out} {tiny}", "val_loss"),
    }


def invoke(line, *more):
    result = CliRunner().invoke(tokenmill, [*line.split(), *more])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("name", calls("", ""))
def test_json_is_one_value_and_quiet_leaves_standard_error_empty(made, tmp_path, name):
    for number, flags in enumerate([["--json"], ["--quiet"], []]):
        line, key = calls(made, tmp_path / str(number))[name]
        (tmp_path / str(number)).mkdir()
        said = invoke(line, *flags)
        if flags == ["--json"]:
            value = json.loads(said.stdout)
            assert key is None or key in value
        elif flags == ["--quiet"]:
            assert said.stderr == ""
            quiet = said.stdout
        else:  # results are the same without --quiet: only notes and progress are added
            assert said.stdout == quiet


def test_jobs_have_them_too(made, tmp_path):
    invoke(f"prepare plan {made}/a.txt -o {tmp_path}/p --tokenizer bytes --quiet")

    worked = json.loads(invoke(f"prepare work {tmp_path}/p --part 0/1 --json").stdout)
    status = json.loads(invoke(f"prepare status {tmp_path}/p --json").stdout)
    finished = json.loads(invoke(f"prepare finish {tmp_path}/p --json --workers 1").stdout)
    again = json.loads(invoke(f"prepare finish {tmp_path}/p --json").stdout)

    assert worked["complete"] is True
    assert status["stages"] == worked["stages"]
    assert finished["documents_in"] == 1
    assert again["already_there"] is True


def all_commands(path, command):
    """Every command with its words, groups and their main commands included."""
    if hasattr(command, "main_command"):
        yield path, command.main_command
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from all_commands(f"{path} {name}".strip(), command.get_command(None, name))


@pytest.mark.parametrize("count", [5, 50000])
def test_a_reader_that_goes_away_is_no_error(tmp_path, count):
    """As `tokenmill show ... | head` is: nothing is said, though there is more to print."""
    np.arange(50000, dtype="<u2").tofile(tmp_path / "train.bin")
    reads, writes = os.pipe()
    os.close(reads)
    arguments = f"show tokens {tmp_path}/train.bin 0:{count} --ids --dtype uint16 --limit 50000"

    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", *arguments.split()],
        stdout=writes,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writes)

    assert (done.returncode, done.stderr) == (0, b"")


def test_no_command_is_without_them():
    commands = dict(all_commands("", tokenmill))
    del commands["prepare slurm"], commands["train slurm"]  # print a script and have no outcome

    assert len(commands) > 20
    for name, command in commands.items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {"--json", "--quiet", "-q"} <= flags, name


def test_the_address_of_the_pages_as_json(made):
    arguments = ["view", str(made / "data"), "--no_browser", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "tokenmill", *arguments], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert json.loads(server.stdout.readline())["address"].startswith("http://127.0.0.1:")
        finally:
            server.terminate()


@pytest.mark.parametrize(("flags", "opened"), [([], 1), (["--no_browser"], 0)])
def test_the_browser_is_opened_unless_it_is_not_wanted(made, flags, opened):
    """The browser is one that prints; a page is asked for, since it is opened before that."""
    with subprocess.Popen(
        [sys.executable, "-m", "tokenmill", "view", str(made / "data"), *flags],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": "echo opened %s"},
    ) as server:
        try:
            address = re.search(r"http://\S+", server.stdout.readline())[0]
            urllib.request.urlopen(address).close()
        finally:
            server.terminate()
        assert server.stdout.read().count(f"opened {address}") == opened


@pytest.mark.parametrize(
    ("flags", "out", "err"),
    [([], "result\n", "note\n"), (["-q"], "result\n", ""), (["--json"], '{\n  "n": 1\n}\n', "")],
)
def test_results_notes_and_the_exit_code(flags, out, err):
    @click.command(cls=OutcomeCommand)
    def command():
        return Outcome({"n": 1}, results=["result"], notes=["note"], exit_code=12)

    said = CliRunner().invoke(command, flags)

    assert (said.stdout, said.stderr, said.exit_code) == (out, err, 12)


def test_a_run_on_many_ranks_prints_its_json_once(monkeypatch):
    result = TrainResult(step=1, train_loss=2.0, val_loss=None, run_dir="runs/gpt", data_wait=0.0)
    monkeypatch.setattr(start, "train", lambda *settings, **options: result)
    monkeypatch.setenv("WORLD_SIZE", "2")

    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        said.append(invoke("train --json").stdout)

    assert json.loads(said[0])["run_dir"] == "runs/gpt"
    assert said[1] == ""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('tokenmill.open("x.bin", dtype="uint16")', "--dtype uint16"),
        ('tokenmill.open("x.bin", split="val")', "x.bin"),
        ('tokenmill.open("x.bin", where=1)', 'tokenmill.open("x.bin", where=1)'),
    ],
)
def test_a_call_is_shown_in_flags_where_the_command_has_all_of_them(said, shown):
    @click.command()
    @click.option("--dtype")
    def look(dtype):
        pass

    assert as_flags(f"pass {said}.", look) == f"pass {shown}."
