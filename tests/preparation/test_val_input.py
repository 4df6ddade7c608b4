"""Held-out files are splits of their own, and nothing of them is trained on."""

import gzip
import io
import json
import shlex
import signal
import sys

import flat
import pytest
import xxhash
from flat import prepare
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation.oracle import hashes_of_files, read_dataset
from preparation.runs import assert_nothing_stray, run
from system_faults import RENAMES, injecting, needs_strace

import tokenmill
from tokenmill.cli import main
from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.planning.val_inputs import held_out_inputs, read_words

RAW = {"tokenizer": "bytes", "clean": False, "workers": 1}


def write_rows(path, texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def numbered(first, last):
    return [f"Document number {n} of all.\nIts second line, {n}." for n in range(first, last)]


def texts_of(out):
    """{split: texts}, by the format on disk and the meaning of `bytes` alone."""
    splits = read_dataset(out)
    return {name: [bytes(ids[:-1]).decode() for ids in found] for name, found in splits.items()}


def made(out):
    return json.loads((out / "dataset_metadata.json").read_bytes())


# --- what is in both


def without_repeated_lines(texts, seen, min_chars):
    """Line by line; what was seen before is dropped, a text without lines is left out."""
    found = []
    for text in texts:
        kept = []
        for line in text.splitlines():
            if len(line) < min_chars or line not in seen:
                kept.append(line + "\n")
                if len(line) >= min_chars:
                    seen.add(line)
        if kept:
            found.append("".join(kept))
    return found


def expected(held_out, train, dedup, min_chars):
    """The rules, naively: the validation sets first, then the rest."""
    splits = dict(held_out)
    if dedup == "lines":
        seen = set()
        splits = {n: without_repeated_lines(t, seen, min_chars) for n, t in splits.items()}
        train = without_repeated_lines(train, seen, min_chars)
    if dedup == "documents":
        seen = set()
        for name, texts in (*held_out.items(), ("train", train)):
            splits[name] = [t for t in texts if not (t in seen or seen.add(t))]
        train = splits.pop("train")
    in_val = {text for texts in splits.values() for text in texts}
    return {**splits, "train": [text for text in train if text not in in_val]}


LINES = st.sampled_from(["a", "bb", "four", "line five", "six six six", "seven", "8" * 20])
TEXT = st.lists(LINES, min_size=1, max_size=4).map(lambda lines: "".join(f"{x}\n" for x in lines))
TEXTS = st.lists(TEXT, min_size=1, max_size=8)


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
@settings(max_examples=25, deadline=None)
@given(val=TEXTS, code=TEXTS, train=TEXTS)
def test_what_is_in_both_is_held_out_and_not_trained_on(tmp_path_factory, dedup, val, code, train):
    folder = tmp_path_factory.mktemp("both")
    # A text of its own in each, so that no split is empty.
    sides = {"val": [*val, "only val\n"], "val_code": [*code, "only code\n"]}
    train = [*train, "only train\n"]
    inputs = write_rows(folder / "a.jsonl", train)  # first by name, and yet the last to be read
    held = {name: write_rows(folder / f"z{name}.jsonl", texts) for name, texts in sides.items()}
    prepare(inputs, folder / "out", val_input=held, dedup=dedup, dedup_min_chars=4, **RAW)

    found = texts_of(folder / "out")
    assert found == expected(sides, train, dedup, min_chars=4)
    assert not set(found["train"]) & {*found["val"], *found["val_code"]}


def test_the_accounts_say_what_was_dropped_from_train(tmp_path):
    train = write_rows(tmp_path / "a.jsonl", [*numbered(0, 30), *numbered(5, 7)])
    held = write_rows(tmp_path / "b.jsonl", numbered(5, 10))
    summary = prepare(train, tmp_path / "out", val_input=held, dedup="none", **RAW)

    assert summary.dropped == {"held out for validation": 7}
    assert texts_of(tmp_path / "out") == {
        "train": [*numbered(0, 5), *numbered(10, 30)],
        "val": numbered(5, 10),
    }


def test_a_document_larger_than_units_is_compared_as_a_whole(tmp_path):
    large = " ".join(f"word{n}" for n in range(2000))
    held, train = tmp_path / "held.txt", tmp_path / "train"
    train.mkdir()
    for path, text in (
        (held, large),
        (train / "same.txt", large),
        (train / "other.txt", large + " more"),
    ):
        path.write_text(text)
    out = tmp_path / "out"
    prepare(train, out, val_input=held, dedup="none", unit_bytes=1500, **RAW)

    assert texts_of(out) == {"train": [large + " more"], "val": [large]}


# --- which inputs


def test_every_kind_of_input_can_be_held_out(tmp_path, monkeypatch):
    import pyarrow
    import pyarrow.parquet

    held = tmp_path / "held"
    held.mkdir()
    (held / "a.txt").write_text("plain text")
    (held / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "packed rows"}\n'))
    (held / "c.csv").write_text("text\na row of csv\n")
    pyarrow.parquet.write_table(pyarrow.table({"text": ["in parquet"]}), held / "d.parquet")
    (tmp_path / "train.txt").write_text("to train on")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
    out = tmp_path / "out"
    prepare(tmp_path / "train.txt", out, val_input={"all_kinds": held, "piped": "-"}, **RAW)

    assert texts_of(out) == {
        "train": ["to train on"],
        "val_all_kinds": ["plain text", "packed rows", "a row of csv", "in parquet"],
        "val_piped": ["from a pipe"],
    }
    recorded = made(out)["settings"]
    assert recorded["val_input"] == {
        "val_all_kinds": ["held/a.txt", "held/b.jsonl.gz", "held/c.csv", "held/d.parquet"],
        "val_piped": [f"standard-input-{xxhash.xxh3_128_hexdigest(b'from a pipe')[:16]}"],
    }
    assert recorded["split"] == "files"


def test_a_held_out_file_in_the_folder_to_train_on_is_only_held_out(tmp_path):
    folder = tmp_path / "corpus"
    write_rows(folder / "a.jsonl", numbered(0, 5))
    held = write_rows(folder / "held.jsonl", numbered(10, 15))
    prepare(folder, tmp_path / "out", val_input=held, **RAW)

    assert texts_of(tmp_path / "out") == {"train": numbered(0, 5), "val": numbered(10, 15)}
    with pytest.raises(PrepareError, match="all inputs are held out"):
        prepare(folder, tmp_path / "none", val_input=folder, **RAW)
    with pytest.raises(PrepareError, match="is given twice"):
        prepare(folder, tmp_path / "none", val_input={"a": held, "b": held}, **RAW)
    assert not (tmp_path / "none").exists()


def test_a_validation_set_of_which_nothing_is_left_is_an_error(tmp_path):
    train, empty = write_rows(tmp_path / "a.jsonl", numbered(0, 5)), tmp_path / "empty.jsonl"
    empty.write_text('{"text": ""}\n')
    with pytest.raises(PrepareError, match="nothing is left to write for val_x"):
        prepare(train, tmp_path / "out", val_input={"x": empty}, **RAW)
    held = write_rows(tmp_path / "b.jsonl", numbered(0, 9))
    with pytest.raises(PrepareError, match="nothing is left to write for train"):
        prepare(train, tmp_path / "out", val_input=held, dedup="none", **RAW)
    assert not (tmp_path / "out").exists()


def test_the_names_of_splits_are_plain():
    assert list(held_out_inputs({"code": "a", "val_law": "b", "val": ["c", "d"]})) == [
        "val_code",
        "val_law",
        "val",
    ]
    for name in ("train", "all", "", "Code", "a b", "../x", "a/b", "x" * 60, "val_"):
        with pytest.raises(ValueError, match="cannot name a validation set"):
            held_out_inputs({name: "a"})


def test_words_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_words([["a", "b"], ["code=c", "d"], ["e"], ["code=f"], ["s3://x/k=v/a.txt"]]) == {
        "val": ["a", "b", "e", "s3://x/k=v/a.txt"],
        "code": ["c", "d", "f"],
    }
    (tmp_path / "day=1.txt").write_text("x")
    with pytest.raises(ValueError, match=r"write \./day=1.txt"):
        read_words([["day=1.txt"]])
    assert read_words([["a", "code=b", "c", "law=d"]]) == {
        "val": ["a"],
        "code": ["b", "c"],
        "law": ["d"],
    }
    assert read_words([["./day=1.txt"]]) == {"val": ["./day=1.txt"]}
    with pytest.raises(ValueError, match="names no file"):
        read_words([["code="]])


# --- the share of the other documents


def test_with_held_out_files_nothing_else_is_held_out_unless_asked_for(tmp_path):
    train = write_rows(tmp_path / "a.jsonl", numbered(0, 300))
    held = write_rows(tmp_path / "b.jsonl", numbered(400, 420))
    prepare(train, tmp_path / "one", val_input=held, **RAW)
    assert texts_of(tmp_path / "one")["train"] == numbered(0, 300)

    prepare(train, tmp_path / "two", val_input={"b": held}, val_fraction=0.1, **RAW)
    both = texts_of(tmp_path / "two")
    assert sorted(both) == ["train", "val", "val_b"]
    prepare(train, tmp_path / "by_hash", val_fraction=0.1, **RAW)
    by_hash = texts_of(tmp_path / "by_hash")
    assert {name: both[name] for name in by_hash} == by_hash  # the same split as without files

    with pytest.raises(SettingsMismatchError, match="val would hold both the files"):
        prepare(train, tmp_path / "three", val_input=held, val_fraction=0.1, **RAW)


# --- adding


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
def test_adding_keeps_both_sides_apart(tmp_path, dedup):
    out, rules = tmp_path / "out", {**RAW, "dedup": dedup}
    first = write_rows(tmp_path / "a.jsonl", numbered(0, 20))
    held = write_rows(tmp_path / "b.jsonl", numbered(30, 35))
    prepare(first, out, val_input=held, **rules)
    before = hashes_of_files(out)

    # Documents to train on: those that are held out are dropped.
    more = write_rows(tmp_path / "c.jsonl", numbered(32, 45))
    prepare(more, out, append=True, workers=1)
    # A new validation set alone: what is in train already stays there.
    new = write_rows(tmp_path / "d.jsonl", numbered(15, 25))
    prepare([], out, append=True, workers=1, val_input={"new": new})
    # Both at once.
    last = write_rows(tmp_path / "e.jsonl", [*numbered(22, 28), *numbered(50, 55)])
    held_too = write_rows(tmp_path / "f.jsonl", numbered(50, 53))
    prepare(last, out, append=True, workers=1, val_input=held_too)

    assert texts_of(out) == {
        "train": [
            *numbered(0, 20),
            *numbered(35, 45),
            *numbered(25, 28),
            *numbered(53, 55),
        ],
        "val": [*numbered(30, 35), *numbered(50, 53)],
        "val_new": numbered(20, 25),
    }
    if dedup == "none":
        assert made(out)["accounts"]["dropped"] == {
            "held out for validation": 3 + 3 + 3,
            "in train already": 5,
        }
    after = hashes_of_files(out)
    for name in before.keys() - {"dataset_metadata.json", "README.md"}:
        assert after[name] == before[name]
    assert not tokenmill.verify(out, full=True).damaged


def test_val_is_not_made_of_two_kinds_by_adding(tmp_path):
    train = write_rows(tmp_path / "a.jsonl", numbered(0, 300))
    held = write_rows(tmp_path / "b.jsonl", numbered(400, 420))
    prepare(train, tmp_path / "out", **RAW)
    with pytest.raises(SettingsMismatchError, match="NAME=FILE"):
        prepare([], tmp_path / "out", append=True, val_input=held)
    same = write_rows(tmp_path / "c.jsonl", numbered(0, 9))
    with pytest.raises(PrepareError, match="nothing is left to write for val_again"):
        prepare([], tmp_path / "out", append=True, val_input={"again": same})
    assert sorted(texts_of(tmp_path / "out")) == ["train", "val"]
    assert_nothing_stray(tmp_path / "out")


# --- the same bytes


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_rows(folder / "a.jsonl", [*numbered(0, 60), *numbered(10, 20)])
    (folder / "large.txt").write_text(" ".join(f"word{n}" for n in range(900)))
    held = [write_rows(folder / f"z{n}.jsonl", numbered(30 * n, 30 * n + 12)) for n in range(2)]
    return {
        "inputs": [str(folder)],
        "val_input": {"val": str(held[0]), "late": str(held[1])},
        "unit_bytes": 900,
        "tokens_per_shard": 1500,
        "tokenizer": "bytes",
        "dedup": "none",
    }


@pytest.fixture(scope="module")
def untouched(arguments, tmp_path_factory):
    out = tmp_path_factory.mktemp("untouched") / "out"
    prepare(out_dir=out, workers=1, **arguments)
    assert sorted(texts_of(out)) == ["train", "val", "val_late"]
    return hashes_of_files(out)


def test_the_order_of_the_names_changes_nothing(arguments, untouched, tmp_path):
    turned = dict(reversed(arguments["val_input"].items()))
    prepare(out_dir=tmp_path / "out", **{**arguments, "val_input": turned, "unit_bytes": 1 << 20})

    assert hashes_of_files(tmp_path / "out") == untouched


def test_what_does_not_fit_into_memory_is_compared_in_batches_with_the_same_outcome(
    arguments, untouched, tmp_path, monkeypatch
):
    monkeypatch.setattr("tokenmill.preparation.stages.duplicates.HASHES_AT_ONCE", 3)
    prepare(out_dir=tmp_path / "out", workers=1, **arguments)

    assert hashes_of_files(tmp_path / "out") == untouched


def test_numbered_jobs_make_the_same(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    plan = flat.plan(out_dir=out, **arguments)
    assert "document-duplicates" in jobs.make_slurm_script(str(out), plan, 3, 1, "1G")
    for part in (2, 0, 1) * 8:
        jobs.work(out, JobPart(part, 3))
    assert jobs.status(out).complete
    jobs.finish(out, workers=1)

    assert hashes_of_files(out) == untouched


@needs_strace
def test_killed_and_resumed_it_makes_the_same(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": 1, **arguments}
    for number in (2, 25, 25):
        code, _ = run(wanted, injecting(f"signal=SIGKILL:when={number}", RENAMES))
        assert code == -signal.SIGKILL
    assert run(wanted) == (0, "")

    assert hashes_of_files(out) == untouched
    assert_nothing_stray(out)


def test_another_role_of_a_file_is_another_dataset(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    prepare(out_dir=out, workers=1, **arguments)
    assert prepare(out_dir=out, workers=1, **arguments).already_there
    moved = {**arguments, "val_input": {"val": list(arguments["val_input"].values())}}
    with pytest.raises(SettingsMismatchError, match="is held out for val_late -> val"):
        prepare(out_dir=out, workers=1, **moved)
    assert hashes_of_files(out) == untouched


# --- the command


def tokenmill_command(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.mark.parametrize("flag", ["--val_input", "--val-input"])
def test_the_flag_takes_all_words_up_to_the_next_one(tmp_path, monkeypatch, capsys, flag):
    monkeypatch.chdir(tmp_path)
    for n, name in enumerate("abcde"):
        write_rows(tmp_path / f"{name}.jsonl", numbered(10 * n, 10 * n + 5))
    words = ["a.jsonl", flag, "b.jsonl", "c.jsonl", flag, "x=d.jsonl", "e.jsonl", "-o", "out"]
    rules = ["--tokenizer", "bytes", "--no_normalize", "--workers", "1"]
    assert tokenmill_command("prepare", *words, *rules) == 0
    assert "val_x in 1" in capsys.readouterr().err
    assert texts_of(tmp_path / "out") == {
        "train": numbered(0, 5),
        "val": [*numbered(10, 15), *numbered(20, 25)],
        "val_x": [*numbered(30, 35), *numbered(40, 45)],
    }
    assert tokenmill_command("prepare", f"{flag}=b.jsonl", "a.jsonl", "-o", "none") == 2
    assert "name the inputs to train on before it" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_the_command_on_the_card_makes_the_dataset_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "a.jsonl", numbered(0, 50))
    write_rows(tmp_path / "x=1.jsonl", numbered(60, 70))
    write_rows(tmp_path / "c.jsonl", numbered(80, 90))
    held = {"val": tmp_path / "x=1.jsonl", "code": tmp_path / "c.jsonl"}
    prepare(tmp_path / "a.jsonl", "first", val_input=held, tokenizer="bytes", workers=1)
    [line] = [
        line
        for line in (tmp_path / "first/README.md").read_text().splitlines()
        if line.startswith("tokenmill prepare")
    ]
    words = [word if word != "OUT" else "again" for word in shlex.split(line)[1:]]
    assert tokenmill_command(*words, "--workers", "1", "--quiet") == 0
    assert hashes_of_files(tmp_path / "again") == hashes_of_files(tmp_path / "first")


def test_an_estimate_counts_the_held_out_files(tmp_path, capsys):
    train = write_rows(tmp_path / "a.jsonl", numbered(0, 50))
    held = write_rows(tmp_path / "b.jsonl", numbered(60, 70))
    words = ["prepare", train, "--val_input", held, "-o", tmp_path / "out", "--estimate", "--json"]
    assert tokenmill_command(*words) == 0
    assert json.loads(capsys.readouterr().out)["bytes_in"] == sum(
        path.stat().st_size for path in (train, held)
    )
