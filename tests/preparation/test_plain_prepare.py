"""examples/plain_prepare.py, written from the pages alone, makes what `tokenmill.prepare` makes.

And the pages are exact: their tables of values hold, for the example and for the library.
"""

import ast
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import xxhash
from flat import prepare
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation import oracle
from spec_vectors import vectors

from tokenmill.errors import PrepareError
from tokenmill.preparation.stages.parts import hashed_bytes
from tokenmill.text.cleaning.dedup import hash_all

ROOT = Path(__file__).parents[2]
SCRIPTS = ("plain_prepare", "plain_hash")
SECTIONS = ("inputs", "cleaning", "validation")


def example(name):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "examples"))


plain = example("plain_prepare")


class Library:
    """The functions of the example, done by the library."""

    @staticmethod
    def prepared(files, **options):
        with tempfile.TemporaryDirectory(dir=oracle.IN_MEMORY) as name:
            folder = Path(name) / "in"
            folder.mkdir()
            for number, data in enumerate(files):
                (folder / f"{number:03d}.txt").write_bytes(data)
            accounts, splits = made(folder, val_fraction=0, **options)
            return texts_of(splits), accounts["dropped"]

    @staticmethod
    def number_of(ids):
        return int(hash_all([hashed_bytes(np.array(ids))])["low"][0])

    @staticmethod
    def split(texts, val_fraction=0.1):
        with tempfile.TemporaryDirectory(dir=oracle.IN_MEMORY) as name:
            folder = Path(name) / "in"
            folder.mkdir()
            lines = (json.dumps({"text": text}) + "\n" for text in texts)
            (folder / "a.jsonl").write_text("".join(lines))
            splits = made(folder, val_fraction=val_fraction)[1]
            return {name: splits.get(name, []) for name in ("train", "val")}


def made(folder, **options):
    """The accounts and the documents of a dataset; of one in which nothing is left, the latter."""
    out = folder.parent / "out"
    prepare(folder, out, tokenizer="bytes", workers=1, **options)
    return oracle.accounts_of(out), oracle.read_dataset(out)


def texts_of(splits):
    return [bytes(ids[:-1]).decode() for ids in splits["train"]]


@pytest.mark.parametrize(
    ("expression", "value"), [vector for section in SECTIONS for vector in vectors(section)]
)
@pytest.mark.parametrize("names", [vars(plain), vars(Library)], ids=["example", "library"])
def test_vectors_of_the_pages_hold(names, expression, value):
    assert repr(eval(expression, dict(names))) == value


@pytest.mark.parametrize(("section", "least"), [("inputs", 12), ("cleaning", 8), ("validation", 5)])
def test_every_page_has_its_vectors(section, least):
    assert len(vectors(section)) >= least


pieces = st.sampled_from(
    [
        *("\n", "\n", "\n\n", "\r\n", "\r", " ", "\t", "  ", "\x0b", "\x0c", "\x00", "\x85"),
        *("a", "b", "\u00e9", "e\u0301", "\u00a0", "\ufeff", "\u4e2d", "--", "---", " " * 1001),
        "\u0958\u0958",  # NFC makes it longer
        *("a line that is long enough", "another line that counts", "exactly 16 chars"),
    ]
)
contents = st.lists(pieces, max_size=24).map("".join).map(str.encode)
options = st.fixed_dictionaries(
    {
        "clean": st.booleans(),
        "dedup": st.sampled_from(["none", "lines", "documents"]),
        "dedup_min_chars": st.sampled_from([0, 1, 3, 16]),
        "long_line": st.sampled_from([1, 6, 10, 26, 8 << 20]),
    }
)
cuts = st.sampled_from(
    [
        *({}, {"document_is": "line"}, {"document_is": "paragraph"}),
        *({"separator": text} for text in ("--", "\n\n", "aa", "\r")),
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(contents, min_size=1, max_size=5), options, cuts, st.sampled_from([0, 0.1, 0.7]))
def test_datasets_are_those_of_prepare(files, rules, how, val_fraction):
    texts, dropped = plain.prepared(files, **rules, **how)
    wanted = plain.split(texts, val_fraction)
    with tempfile.TemporaryDirectory(dir=oracle.IN_MEMORY) as name:
        folder = Path(name) / "in"
        folder.mkdir()
        for number, data in enumerate(files):
            (folder / f"{number}.txt").write_bytes(data)
        if not texts:
            with pytest.raises(PrepareError, match="is left to write"):
                made(folder, **rules, **how)
            return
        accounts, splits = made(folder, val_fraction=val_fraction, **rules, **how)
    assert splits == {name: found for name, found in wanted.items() if found}
    assert accounts["dropped"] == dropped


def test_empty_documents_and_byte_order_marks_of_rows(tmp_path):
    """JSON lines without a line have no document; what is empty is counted, as of a text."""
    folder = tmp_path / "in"
    folder.mkdir()
    mark = b"\xef\xbb\xbf"
    (folder / "a.jsonl").write_bytes(mark + b'{"text": ""}\n \t\r\n\n{"text": "\\n"}\n')
    (folder / "b.jsonl").write_bytes(b"")
    (folder / "c.csv").write_bytes(mark + b'text\n""\n" "\n')
    (folder / "d.txt").write_bytes(mark)

    accounts, splits = made(folder, val_fraction=0)

    assert texts_of(splits) == ["\n", " ", "\ufeff"]
    assert (accounts["documents_in"], accounts["dropped"]) == (5, {"empty": 2})


@pytest.mark.parametrize("val_fraction", [0.02, 0.1, 0.5, 0.999])
def test_hundreds_of_documents_are_split_by_their_hash(val_fraction):
    texts = [f"document {number}\n" * (number % 40 + 1) for number in range(600)]

    assert plain.split(texts, val_fraction) == Library.split(texts, val_fraction)


@pytest.mark.parametrize("count", [5, 120], ids=["end", "hash"])
def test_documents_that_are_added_to_a_held_out_end_decide_by_their_own_number(tmp_path, count):
    first, more = (tmp_path / name for name in ("first.jsonl", "more.jsonl"))
    texts = [f"document {number}" for number in range(3 + count)]
    for path, some in ((first, texts[:3]), (more, texts[3:])):
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in some))
    prepare(first, tmp_path / "out", tokenizer="bytes", workers=1)

    prepare(more, tmp_path / "out", append=True, workers=1)

    before, added = plain.split(texts[:3]), plain.split(texts[3:])
    assert oracle.read_dataset(tmp_path / "out") == {
        name: before[name] + added[name] for name in ("train", "val")
    }


def test_the_hash_is_that_of_the_package():
    data = np.random.default_rng(5).integers(0, 256, 5000, np.uint8).tobytes()
    sizes = [*range(4, 700), *range(1000, 1100), 2047, 2048, 2049, 2112, 4096, 5000]

    for size in sizes:
        assert example("plain_hash").xxh3_128(data[:size]) == xxhash.xxh3_128_digest(data[:size])


def test_it_runs_as_the_first_line_says(tmp_path):
    text = b"a line that is long enough\n\nb  c\r\n\na line that is long enough\nd\n"
    (tmp_path / "book.txt").write_bytes(text)
    command = [sys.executable, ROOT / "examples" / "plain_prepare.py", tmp_path / "book.txt"]
    how = {"document_is": "paragraph", "clean": True, "dedup": "lines"}

    done = subprocess.run(
        [*command, "--document_is", "paragraph", "--clean", "--dedup", "lines"],
        capture_output=True,
        text=True,
        check=True,
    )

    _, splits = made_of(tmp_path, text, **how)
    found = [[name, *map(str, ids)] for name, each in splits.items() for ids in each]
    assert [line.split() for line in done.stdout.splitlines()] == found


def made_of(folder, text, **options):
    (folder / "in").mkdir()
    (folder / "in" / "book.txt").write_bytes(text)
    return made(folder / "in", **options)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_needs_nothing_but_the_standard_library(name):
    imported = set()
    for node in ast.walk(ast.parse((ROOT / "examples" / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0])

    assert imported <= sys.stdlib_module_names | set(SCRIPTS)
