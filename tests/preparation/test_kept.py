"""The cleaned text that is kept between the two passes: used once, never trusted blindly."""

import gzip
import os
import shutil

import flat
import pytest
from small_corpus import files_of, write_corpus

from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.planning.limits import has_room_for_text
from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages.cleaned_text import hash_lines
from tokenmill.preparation.stages.duplicates import Search

SETTINGS = {
    "tokenizer": "bytes", "dedup": "lines", "tokens_per_shard": 20_000, "unit_bytes": 10_000
}  # fmt: skip


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "corpus", documents=100)
    (tmp_path / "corpus" / "empty.txt").write_bytes(b"")
    (tmp_path / "corpus" / "long.txt").write_text("one line of many words and no end " * 2000)
    return tmp_path / "corpus"


@pytest.fixture
def expected(corpus, tmp_path):
    flat.prepare(corpus, tmp_path / "expected", workers=1, **SETTINGS)
    return files_of(tmp_path / "expected")


def first_pass(corpus, out, *, keep_text):
    """All lines are hashed; then the preparation stops. The files of kept text."""
    flat.plan(corpus, out, **SETTINGS)
    num_units = len(load_plan(str(out)).units)
    for unit in range(num_units):
        hash_lines(str(out), unit, Search("lines", num_units), keep_text)
    return sorted(out.rglob("*.text"))


def second_pass(out):
    while not jobs.status(out).complete:
        jobs.work(out, JobPart(0, 1))
    jobs.finish(out, workers=1)
    return files_of(out)


@pytest.mark.parametrize("keep_text", [True, False])
def test_with_kept_text_and_without_the_bytes_are_the_same(corpus, expected, tmp_path, keep_text):
    kept = first_pass(corpus, tmp_path / "out", keep_text=keep_text)

    assert len(kept) == (len(load_plan(str(tmp_path / "out")).units) if keep_text else 0)
    assert second_pass(tmp_path / "out") == expected


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damaged_text_is_read_again_from_its_source(corpus, expected, tmp_path, damage):
    for path in first_pass(corpus, tmp_path / "out", keep_text=True)[::2]:
        text = path.read_bytes()
        if damage == "flipped":
            path.write_bytes(text[: len(text) // 2] + b"#" + text[len(text) // 2 + 1 :])
        elif damage == "cut":
            path.write_bytes(text[: len(text) // 2])
        else:
            path.unlink()

    assert second_pass(tmp_path / "out") == expected


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_of_a_unit_of_many_chunks_those_before_the_damage_are_used(tmp_path, share):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"line {n * n} of many\n" * 2 + "<eot>" for n in range(100_000)))
    settings = {"tokenizer": "bytes", "dedup": "lines", "separator": "<eot>"}
    flat.prepare(corpus, tmp_path / "expected", workers=1, **settings)
    flat.plan(corpus, tmp_path / "out", **settings)
    receipt = hash_lines(str(tmp_path / "out"), 0, Search("lines", 1), True)
    assert len(receipt["kept"]) > 3
    (path,) = (tmp_path / "out").rglob("*.text")
    with open(path, "r+b") as file:
        file.seek(int(share * path.stat().st_size))
        file.write(b"#")

    assert second_pass(tmp_path / "out") == files_of(tmp_path / "expected")


def test_the_second_pass_reads_no_source_whose_text_was_kept(corpus, expected, tmp_path):
    first_pass(corpus, tmp_path / "out", keep_text=True)
    packed = corpus / "sub" / "c.jsonl.gz"
    about = packed.stat()
    packed.write_bytes(gzip.compress(b"x")[: about.st_size].ljust(about.st_size, b"#"))
    os.utime(packed, ns=(about.st_atime_ns, about.st_mtime_ns))

    assert second_pass(tmp_path / "out") == expected


def test_text_is_kept_only_where_there_is_room_for_it(tmp_path):
    (tmp_path / "small.txt").write_text("some words")
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(shutil.disk_usage(tmp_path).free // 4)  # takes no room itself
    for name, room in [("small", True), ("large", False)]:
        flat.plan(tmp_path / f"{name}.txt", tmp_path / name, tokenizer="gpt2")
        assert has_room_for_text(load_plan(str(tmp_path / name))) is room
