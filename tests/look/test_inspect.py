"""What `inspect` and `verify` say about datasets of every format."""

import json
import re

import numpy as np
import pytest
from look import build
from look.build import ALL_FORMATS, EOT
from pages.read import Read

import tokenmill
from tokenmill.cli import main
from tokenmill.errors import NotADatasetError
from tokenmill.look.check import verify
from tokenmill.look.inspect import inspect, lines, open_splits
from tokenmill.pages.report import report

INDEXED = {"tokenmill", "megatron", "datatrove", "dolma", "mds", "litdata"}


@pytest.fixture(scope="module")
def few():
    texts = {"train": build.documents(60, seed=1), "val": build.documents(6, seed=2)}
    return {name: build.encoded(some) for name, some in texts.items()}


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([*map(str, args)])
    return int(stop.value.code or 0)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_counts_are_those_of_the_documents_in_every_format(tmp_path, few, format):
    write, settings = ALL_FORMATS[format]

    known = inspect(write(tmp_path / "d", few), **settings)

    tokens = {name: sum(len(d) + 1 for d in docs) for name, docs in few.items()}
    assert (known.format, known.dtype) == (format, "uint16")
    assert known.tokens == sum(tokens.values())
    assert {n: s.tokens for n, s in known.splits.items()} == tokens
    assert known.bytes == 2 * sum(tokens.values())
    assert known.documents == (66 if format in INDEXED else None)


def test_bytes_per_token_are_those_of_the_text(tmp_path, few):
    texts = build.documents(60, seed=1)
    exact = sum(map(len, texts)) / sum(map(len, few["train"]))

    known = inspect(build.ours(tmp_path / "d", few))

    assert known.bytes_per_token == pytest.approx(exact, rel=0.02)


def test_how_it_was_made_is_shown(tmp_path, few):
    known = inspect(build.ours(tmp_path / "d", few))

    assert known.made.settings == {"dedup": "lines", "clean": True}
    assert known.made.source_bytes == 12345
    shown = "\n".join(lines(known))
    assert "gpt2, 50,257 ids, end-of-text 50256 after each document" in shown
    assert "made with  dedup=lines" in shown
    assert "clean=yes" in shown
    assert "corpus/a.jsonl: 12,345 bytes" in shown


@pytest.mark.parametrize("name", ["train.bin", "corpus.bin"])
def test_data_without_splits_is_listed_whole_as_open_opens_it(tmp_path, few, name):
    path = build.raw(tmp_path / "d", {"train": few["train"]}) / "train.bin"
    path = path.rename(path.with_name(name))

    known = inspect(path, dtype="uint16")

    data = tokenmill.open(path, dtype="uint16")
    assert {n: s.tokens for n, s in known.splits.items()} == {"all": len(data)}
    assert known.tokens == len(data) == path.stat().st_size // 2
    assert known.splits["all"].fingerprint == data.fingerprint
    assert not known.splits["all"].part_of_a_file


def test_what_is_held_out_by_rule_is_listed_when_asked_for(tmp_path, few):
    path = build.raw(tmp_path / "d", {"train": few["train"]}) / "train.bin"

    splits = open_splits(path, held_out=True, dtype="uint16")

    total = path.stat().st_size // 2
    assert {name: len(data) for name, data in splits.items()} == {
        "train": total * 9 // 10,
        "val": total - total * 9 // 10,
    }


def test_data_with_other_splits_than_train_is_listed_by_them(tmp_path, few):
    path = build.raw(tmp_path / "d", {"val": few["val"], "test": few["train"]})

    assert list(inspect(path, dtype="uint16").splits) == ["val", "test"]


def test_a_name_with_control_characters_is_shown_harmlessly(tmp_path, few, capsys):
    path = build.ours(tmp_path / "d\x1b[31m", few)

    assert run("inspect", path) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_json_is_for_programs(tmp_path, few, capsys):
    path = build.ours(tmp_path / "d", few)

    assert run("inspect", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["splits"]["val"]["documents"] == 6


def test_nothing_here_exits_10(tmp_path, capsys):
    assert run("inspect", tmp_path / "nothing") == 10
    assert run("verify", tmp_path / "nothing") == 10
    assert capsys.readouterr().err.startswith("error: ")


# verify


@pytest.mark.parametrize("format", ALL_FORMATS)
@pytest.mark.parametrize("how", [{}, {"full": True}, {"subset": "50%"}])
def test_sound_data_of_every_format_is_sound(tmp_path, few, format, how):
    write, settings = ALL_FORMATS[format]

    result = verify(write(tmp_path / "d", few), **how, **settings)

    assert result.damaged == []
    assert result.format == format


def test_a_flipped_bit_is_found_by_full_and_named_with_the_remedy(tmp_path, few, capsys):
    path = build.ours(tmp_path / "d", few)
    shard = path / "train" / "shard_00001.bin"
    data = bytearray(shard.read_bytes())
    data[100] ^= 4
    shard.write_bytes(data)

    assert run("verify", path) == 0
    capsys.readouterr()
    assert run("verify", path, "--full") == 12

    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("train/shard_00001.bin: expected xxh3-128 ")
    assert "; remedy: fetch this file again" in line


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_missing_bytes_are_found_at_once(tmp_path, few, damage, capsys):
    path = build.ours(tmp_path / "d", few)
    shard = path / "train" / "shard_00001.bin"
    if damage == "cut":
        shard.write_bytes(shard.read_bytes()[:-2])
    else:
        shard.unlink()

    assert run("verify", path, "--json") == 12

    result = json.loads(capsys.readouterr().out)
    assert [d["file"] for d in result["damaged"]] == ["train/shard_00001.bin"]
    assert not result["ok"]


def test_files_that_are_not_part_of_it_are_notes(tmp_path, few, capsys):
    path = build.ours(tmp_path / "d", few)
    (path / "notes.txt").write_text("mine")
    (path / ".tokenmill" / "hub").mkdir(parents=True)
    (path / ".tokenmill" / "hub" / "x.json").write_text("{}")

    assert run("verify", path) == 0

    note, verdict = capsys.readouterr().err.splitlines()
    assert note == "note: 'notes.txt' is not part of the dataset"
    assert verdict.startswith(f"{path}: sound; compared sizes, looked at ")


def test_a_cut_shard_of_another_format_exits_12(tmp_path, few, capsys):
    path = build.llmc(tmp_path / "d", few)
    shard = next(path.glob("*train*"))
    shard.write_bytes(shard.read_bytes()[:-1000])

    assert run("verify", path) == 12
    assert shard.name in capsys.readouterr().out


def test_ids_beyond_the_vocabulary_are_found_by_full_in_other_formats(tmp_path, few):
    ids = build.joined(few["train"], comes="before")
    ids[777] = 60_000
    path = tmp_path / "corpus_train_000001.bin"
    path.write_bytes(build.llmc_bytes(ids))

    assert verify(path).damaged == []
    [damage] = verify(path, full=True).damaged
    assert (damage.what, damage.found) == ("ids", "id 60,000")


def test_an_index_that_does_not_fit_is_found_by_full(tmp_path, few):
    path = build.datatrove(tmp_path / "d", few)
    index = path / "train" / "000_c.ds.index"
    table = np.frombuffer(index.read_bytes(), "<u8").copy()
    table[3], table[4] = table[4], table[3]
    index.write_bytes(table.tobytes())

    [damage] = verify(path, full=True).damaged
    assert "goes back" in damage.found


@pytest.mark.parametrize("subset", ["5", "0%", "101%", "x%"])
@pytest.mark.parametrize("format", ["tokenmill", "llmc"])
def test_a_subset_that_is_no_percentage_is_misuse(tmp_path, few, subset, format):
    path = ALL_FORMATS[format][0](tmp_path / "d", few)

    with pytest.raises(ValueError, match="not a percentage"):
        verify(path, subset=subset)


def test_full_and_subset_together_are_misuse(tmp_path):
    with pytest.raises(ValueError, match="give one of them"):
        verify(tmp_path, full=True, subset="5%")


def test_an_empty_folder_is_no_dataset(tmp_path):
    with pytest.raises(NotADatasetError):
        verify(tmp_path)


def test_end_of_text_given_by_hand_is_shown(tmp_path, few):
    path = build.raw(tmp_path / "d", few)

    known = inspect(path, dtype="uint16", tokenizer="gpt2", end_of_text=EOT)

    assert known.tokenizer.name == "gpt2"
    assert known.tokenizer.end_of_text_id == EOT


PYTHON = re.compile(r"\b(None|True|False)\b|\{\\?['\"]|\['")


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_nothing_is_printed_as_python_writes_it(tmp_path, few, format, capsys):
    write, settings = ALL_FORMATS[format]
    path = write(tmp_path / "d", few)
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]

    assert run("inspect", path, *flags) == 0

    assert not PYTHON.search(capsys.readouterr().out)
    assert not PYTHON.search(Read(report(str(path), **settings)).text)


def test_settings_and_accounts_are_printed_in_words(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "Some words."}\n{"text": ""}\n' * 30)
    (tmp_path / "v.jsonl").write_text('{"text": "Other words."}\n')
    tokenmill.prepare(
        tmp_path / "a.jsonl",
        tmp_path / "d",
        val_input={"code": tmp_path / "v.jsonl"},
        tokenizer="bytes",
        clean=True,
        dedup="documents",
    )

    assert run("inspect", tmp_path / "d") == 0

    shown = capsys.readouterr().out
    words = {line.strip().partition("  ")[2].strip() or line.strip() for line in shown.splitlines()}
    assert {"clean=yes", "end_of_text=none", "tokens_per_shard=10,000,000"} <= words
    assert not PYTHON.search(shown)
    assert not PYTHON.search(Read(report(str(tmp_path / "d"))).text)


@pytest.mark.parametrize("block_size", [1, 7, 64, 10**6])
def test_windows_are_counted_as_a_loader_serves_them(tmp_path, few, block_size, capsys):
    path = build.ours(tmp_path / "d", few)

    assert run("inspect", path, "--block_size", block_size, "--json") == 0

    known = json.loads(capsys.readouterr().out)
    for split, found in known["splits"].items():
        try:
            loader = tokenmill.BatchLoader(
                tokenmill.open(path, split), batch_size=1, block_size=block_size, epochs=1
            )
            served = len(loader)
        except ValueError:  # not one window
            served = 0
        assert found["windows"] == served
    assert run("inspect", path) == 0
    tokens = tokenmill.open(path, "train").num_tokens
    shown = capsys.readouterr().out
    assert f"windows    train {(tokens - 1) // 1024:,}, val " in shown
    assert ", of 1,024 tokens each" in shown
