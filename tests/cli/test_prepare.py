"""The command: what it prints where, its exit codes, and its flags in every spelling."""

import json
import os
import pydoc_data.topics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tokenmill.cli import main

ROOT = Path(__file__).parents[2]
PROMISED = {
    "out_dir", "documents_in", "documents_written", "dropped", "train_tokens", "val_tokens",
    "train_shards", "val_shards", "bytes_in", "seconds",
}  # fmt: skip


def tokenmill(*arguments, script=None, **options):
    start = [str(script)] if script else ["-P", "-m", "tokenmill", "prepare"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=120,
        **options,
    )


@pytest.fixture
def texts(tmp_path):
    topics = list(pydoc_data.topics.topics.values())
    for number, name in enumerate(["a.txt", "b.txt"]):
        (tmp_path / name).write_text("\n".join(topics[number::2])[:40_000], "utf-8")
    return [tmp_path / "a.txt", tmp_path / "b.txt"]


def test_the_command_line_of_the_seed(texts, tmp_path):
    out = tmp_path / "D"
    done = tokenmill(
        *("--input_files", *texts, "--out_dir", out, "--tokenization", "gpt2"),
        *("--tokens_per_shard", "1000", "--no_normalize", "--no_dedup"),
        script=ROOT / "scripts" / "prepare_dataset.py",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert f"Wrote {out}/dataset_metadata.json" in done.stderr
    manifest = json.loads((out / "dataset_metadata.json").read_bytes())
    assert manifest["tokens_per_shard"] == 1000
    assert manifest["settings"]["clean"] is False
    assert manifest["settings"]["dedup"] == "none"
    assert manifest["tokenizer"]["name"] == "gpt2"
    assert [source["name"] for source in manifest["sources"]] == ["a.txt", "b.txt"]
    assert len(manifest["splits"]["train"]["shards"]) > 5


@pytest.mark.parametrize(
    ("script", "flags", "clean", "dedup"),
    [
        ("prepare_dataset.py", [], True, "lines"),
        ("prepare_dataset.py", ["--no-normalize"], False, "lines"),
        ("prepare_dataset.py", ["--no_dedup"], True, "none"),
        ("prepare_dataset.py", ["--dedup=documents", "--normalize"], True, "documents"),
        (None, [], False, "none"),
        (None, ["--no_normalize", "--no_dedup"], False, "none"),
        (None, ["--normalize", "--dedup", "lines"], True, "lines"),
    ],
)
def test_the_script_cleans_by_default_and_the_command_does_not(
    texts, tmp_path, script, flags, clean, dedup
):
    out = tmp_path / "out"
    path = ROOT / "scripts" / script if script else None
    inputs = ["--input_files", texts[0], "--input_files", texts[1]]

    done = tokenmill(*inputs, "--out_dir", out, "--tokenizer", "bytes", *flags, script=path)

    assert done.returncode == 0, done.stderr
    settings = json.loads((out / "dataset_metadata.json").read_bytes())["settings"]
    assert (settings["clean"], settings["dedup"]) == (clean, dedup)


def test_json_is_one_object_with_what_was_promised(texts, tmp_path):
    arguments = [*texts, "-o", tmp_path / "out", "--tokenizer", "bytes", "--json", "--workers=1"]
    done = tokenmill(*arguments)
    found = json.loads(done.stdout)
    assert set(found) >= PROMISED
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    assert found["out_dir"] == str(tmp_path / "out")
    assert found["documents_in"] == found["documents_written"] + sum(found["dropped"].values()) == 2
    assert found["train_tokens"] == manifest["splits"]["train"]["tokens"]
    assert found["val_tokens"] == manifest["splits"]["val"]["tokens"]
    assert (found["train_shards"], found["val_shards"]) == (1, 1)
    assert found["bytes_in"] == sum(os.path.getsize(text) for text in texts)
    assert found["seconds"] > 0


def test_an_addition_says_what_it_added_and_counts_its_own_bytes(texts, tmp_path):
    out = tmp_path / "out"
    tokenmill(*texts, "-o", out, "--tokenizer", "bytes", "--dedup", "documents", "--workers=1")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "one"}\n{"text": "three"}\n{"text": "one"}\n')
    more = tmp_path / "more.jsonl"
    more.write_text('{"text": "four"}\n')

    done = tokenmill(rows, "-o", out, "--append")
    found = json.loads(tokenmill(more, "-o", out, "--append", "--json").stdout)

    lines = done.stderr.splitlines()
    assert "  added     read 3 documents, kept 2 (dropped: 1 duplicate), 10 tokens" in lines
    assert "  in all    read 5 documents, kept 4 (dropped: 1 duplicate)" in lines
    assert found["bytes_read"] == os.path.getsize(more)
    assert found["bytes_in"] == sum(map(os.path.getsize, [*texts, rows, more]))
    assert found["added"]["documents_written"] == 1
    assert found["added"]["tokens_written"] == len(b"four") + 1
    assert found["documents_written"] == 5


def test_a_run_that_is_resumed_counts_the_bytes_that_it_read(texts, tmp_path):
    """A rate of bytes that another run, or another machine, has read would mean nothing."""
    out = tmp_path / "out"
    tokenmill("plan", *texts, "-o", out, "--tokenizer", "bytes")
    tokenmill("work", out, "--part", "0/1")

    finished = tokenmill("finish", out)

    assert f"Wrote {out}/dataset_metadata.json in" in finished.stderr
    assert "B/s)" not in finished.stderr


def test_asked_for_again_it_does_not_claim_to_have_written(texts, tmp_path):
    arguments = [*texts, "-o", tmp_path / "out", "--tokenizer", "bytes", "--workers=1"]
    first, again = tokenmill(*arguments), tokenmill(*arguments)
    assert "B/s)" in first.stderr
    assert "it was complete already" in again.stderr
    assert "Wrote" not in again.stderr
    assert "B/s)" not in again.stderr
    assert json.loads(tokenmill(*arguments, "--json").stdout)["already_there"] is True


def test_quiet_prints_nothing_and_flags_take_dashes(texts, tmp_path):
    done = tokenmill(
        *(*texts, "--out-dir", tmp_path / "out", "--tokenizer", "bytes", "--no-dedup"),
        *("--val-fraction", "0", "--on-bad-input", "skip", "--quiet", "--workers", "1"),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "out" / "val").exists()


def test_exit_codes(texts, tmp_path, capsys):
    def code(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["prepare", "--workers", "1", "--quiet", *map(str, arguments)])
        errors = capsys.readouterr().err
        assert "Traceback" not in errors
        assert bool(errors) == bool(end.value.code)
        assert "rror: " in errors or not errors
        return end.value.code

    out, plain = tmp_path / "out", ("--tokenizer", "bytes")
    assert code(*texts, "-o", out, *plain) == 0
    assert code(*texts, "-o", out, "--clean", *plain) == 13
    assert code(texts[0], "-o", tmp_path / "none", "--append") == 10
    assert code("-o", out) == 2
    assert code(*texts, "-o", tmp_path / "x", "--val_fraction", "1.5", *plain) == 2
    assert code(*texts, "-o", tmp_path / "x", "--max_ram", "1M", *plain) == 2
    assert code(tmp_path / "nothing.txt", "-o", tmp_path / "x", *plain) == 1
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff")
    assert code(tmp_path / "bad.txt", "-o", tmp_path / "y", *plain) == 1
    held = tmp_path / "held"
    (held / ".preparation").mkdir(parents=True)
    (held / ".preparation" / "lock").write_text('{"host": "elsewhere", "pid": 1, "started": "1"}')
    assert code(*texts, "-o", held, *plain) == 11
    assert not (tmp_path / "x").exists()


def test_estimate_writes_nothing(texts, tmp_path):
    before = sorted(tmp_path.iterdir())
    done = tokenmill(*texts, "-o", tmp_path / "out", "--estimate", "--json")
    found = json.loads(done.stdout)
    assert found["dtype"] == "uint16"
    assert found["files"] == 2
    assert sorted(tmp_path.iterdir()) == before
    assert "tokens      about" in tokenmill(*texts, "-o", tmp_path / "out", "--estimate").stdout


def test_standard_input_that_is_closed(tmp_path):
    command = f"{sys.executable} -P -m tokenmill prepare - -o {tmp_path / 'out'} <&-"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no standard input to read\n\nhint: pipe text")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("job", [(), ("plan",)])
def test_json_of_a_folder_whose_name_is_not_utf8(texts, tmp_path, job):
    out = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    done = tokenmill(*job, *texts, "-o", out, "--tokenizer", "bytes", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["run" if job else "out_dir"].endswith("caf\\udce9")


def test_an_empty_name_of_the_field(texts, tmp_path):
    done = tokenmill(*texts, "-o", tmp_path / "out", "--text_field", "", "--tokenizer", "bytes")
    assert done.returncode == 2
    assert done.stderr == "error: text_field is empty; name the field that holds the text\n"
    assert not (tmp_path / "out").exists()


def test_a_template_of_fields_is_typed_with_escapes(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "T", "body": "B"}\n')
    words = ["prepare", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out"), "-q"]
    words += ["--tokenizer", "bytes", "--val_fraction", "0", "--text_field", r"{title}\n\\{body}"]
    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", *words],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert np.fromfile(tmp_path / "out/train/shard_00000.bin", "<u2")[:-1].tolist() == [*b"T\n\\B"]


def test_words_of_the_command_line_are_never_texts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", "prepare", "two words", "-o", str(tmp_path / "out")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "no such file: 'two words'" in done.stderr
