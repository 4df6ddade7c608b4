"""What one types: mistyped words get a suggestion, numbers may have units, hints name flags."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from formats.our_files import write_ours

import tokenmill as library
from tokenmill.cli import main, tokenmill
from tokenmill.cli.convert import convert as convert_command
from tokenmill.cli.outcome import as_flags
from tokenmill.cli.prepare import run_command as prepare_command
from tokenmill.cli.train import run_command as train_command
from tokenmill.errors import TokenmillError


def typed(*args: object) -> int:
    """Give a command; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    return ended.value.code


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("inspeckt data", "no command is called 'inspeckt'; did you mean 'inspect'?"),
        ("preprae a.txt -o b", "did you mean 'prepare'?"),
        ("inspect data --dtpye uint16", "no such option '--dtpye'"),
        ("inspect data --dtpye uint16", "Did you mean '--dtype'?"),
        ("prepare a.txt -o b --tokens-pershard 3", "'--tokens_per_shard'"),
        ("prepare stauts data", "did you mean `prepare status`?"),
        ("prepare a.txt", "missing option '-o' / '--out_dir'"),
        ("show", "missing argument 'PATH'"),
        ("convert a b --to x --tokens_per_shard 10Q", "'10Q' is not a whole number"),
        ("verify a --sample 0", "0 is not in the range x>=1"),
        ("prepare a.txt -o b --dedup lins", "'lins' is not one of 'none', 'lines', 'documents'"),
    ],
)
def test_a_mistyped_word_is_one_error_with_a_suggestion(capsys, line, words):
    assert typed(*line.split()) == 2

    error = capsys.readouterr().err
    assert words in error
    assert error.startswith("error: ")
    assert "Error" not in error
    assert re.search(r"hint: tokenmill .*; `tokenmill .*--help` says more$", error.strip())


def test_no_words_at_all_print_the_help(capsys):
    assert typed() == 2
    shown = "".join(capsys.readouterr())
    assert "Look at a dataset" in shown
    assert "error" not in shown


def test_every_number_that_is_a_flag_may_have_a_unit():
    for name in tokenmill.list_commands(None):
        command = tokenmill.get_command(None, name)
        for option in getattr(command, "main_command", command).params:
            if option.type.name in ("integer", "integer range"):
                assert option.name == "port", f"{name} --{option.name}"


def test_numbers_with_units_are_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one two three four\n" * 2000)

    options = ["--tokenizer", "bytes", "--dedup", "none", "--val_fraction", "0", "-q"]
    sizes = ["--tokens-per-shard", "1.5k", "--long_line", "1k"]
    assert typed("prepare", "a.txt", "-o", "out", *sizes, *options) == 0

    shards = library.open("out").shards
    assert {shard.num_tokens for shard in shards[:-1]} == {1500}
    settings = library.inspect("out").made.settings
    assert (settings["tokens_per_shard"], settings["long_line"]) == (1500, 1024)
    assert typed("convert", "out", "there", "--to", "llmc", "--allow_lost_documents",
                 "--tokens_per_shard", "10k", "-q") == 0  # fmt: skip
    assert library.open("there", "all").shards[0].num_tokens == 10_000


@pytest.mark.parametrize(
    ("command", "text", "flags"),
    [
        (convert_command, "pass overwrite=True to replace it", "pass --overwrite to replace it"),
        (convert_command, "name it with tokenizer= or so", "name it with --tokenizer or so"),
        (convert_command, 'tokenmill.open("a b.bin")', "'a b.bin'"),
        (convert_command, 'tokenmill.open("in/x.bin", dtype="uint16")', "--dtype uint16"),
        (convert_command, 'tokenmill.open("data", split="val")', "data"),
        (prepare_command, "clean=True", "--clean"),
        (prepare_command, 'end_of_text="</s>"', "--end_of_text '</s>'"),
        (prepare_command, 'load("...", pattern="x")', "--token_pattern x"),
        (train_command, 'tokenmill.open("a", format="x", dtype="uint16")', None),
        (train_command, "WANDB_MODE=offline", None),
    ],
)  # fmt: skip
def test_python_becomes_flags_of_the_command_where_it_has_them(command, text, flags):
    assert as_flags(text, command) == (flags or text)


def test_the_flags_in_a_hint_work_and_python_users_get_a_call(tmp_path, capsys):
    ids = np.random.default_rng(0).integers(0, 50_000, 1000).astype(np.uint32)
    ids.tofile(tmp_path / "a b.bin")
    np.save(tmp_path / "ids.npy", ids)

    assert typed("inspect", tmp_path / "a b.bin") == 12
    first, *others = re.findall(r"^  (--dtype \w+) ", capsys.readouterr().err, re.MULTILINE)
    assert (first, *others) == ("--dtype uint32", "--dtype uint16", "--dtype int32")
    assert typed("inspect", tmp_path / "a b.bin", *first.split()) == 0

    command = ["convert", tmp_path / "ids.npy", tmp_path / "out", "--to", "megatron"]
    assert typed(*command) == 12
    hint = capsys.readouterr().err.split("hint: ")[1]
    assert re.findall(r"--\w+", hint) == ["--end_of_text", "--allow_lost_documents"]
    assert typed(*command, "--allow_lost_documents") == 0

    assert typed("verify", tmp_path / "a b.bin", "--dtype", "uint16") == 12
    assert "fix: these are ids of 4 bytes: --dtype uint32" in capsys.readouterr().out

    with pytest.raises(TokenmillError, match=r'tokenmill\.open\(".*a b\.bin", dtype="uint32"\)'):
        library.open(tmp_path / "a b.bin")


def test_a_folder_of_datasets_is_listed(tmp_path, capsys):
    write_ours(tmp_path / "all" / "books", {"train": [[1, 50256]], "val": [[2, 50256]]}, 100)
    write_ours(tmp_path / "all" / "by year" / "1999", {"train": [[1, 2, 50256]]}, 100)
    (tmp_path / "all" / "raw").mkdir()
    (tmp_path / "all" / "raw" / "x.bin").write_bytes(bytes(8))
    (tmp_path / "all" / "empty").mkdir()

    assert typed("inspect", tmp_path / "all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("holds 3 datasets")
    assert [os.path.relpath(line.split("  ")[1], tmp_path / "all") for line in lines[1:]] == [
        "books", "by year/1999", "raw",
    ]  # fmt: skip
    assert "tokenmill uint16, train 2 tokens, val 2 tokens" in lines[1]
    assert "train 3 tokens" in lines[2]
    assert "has no header" in lines[3]

    assert typed("show", tmp_path / "all") == 10
    assert f"name one of the datasets in it: {tmp_path}/all/books" in capsys.readouterr().err
    assert typed("inspect", tmp_path / "all" / "empty") == 10


def test_one_of_something_is_not_called_many(tmp_path):
    (tmp_path / "a.txt").write_text("Hello there.\n")
    command = [sys.executable, "-m", "tokenmill", "prepare", "a.txt", "-o", "out"]

    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert "read 1 document, kept 1" in made.stderr
    assert " 1 shard, " in made.stderr
    assert not re.search(r"\b1 (documents|shards|files|tokens)", made.stderr)
    assert (
        "--document_is line or --document_is paragraph cuts a text file into documents"
        in made.stderr
    )
    assert "1 shard>" in repr(library.open(tmp_path / "out"))
