"""Whatever holds the texts, the shards are those of a file of JSON lines with the same texts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import flat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation.oracle import SOURCE, hashes_of_files

import tokenmill
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.preparation.planning.held_texts import json_lines, paths_or_texts
from tokenmill.text.reading.chunks import ReadRules

TEXTS = [f'Document {i} says "hello".\nSecond line: \u00e9 \U0001f600 \\ {i}.' for i in range(2500)]
SETTINGS = {"tokenizer": "bytes", "unit_bytes": 20_000, "workers": 1}


def shards(out):
    """Hashes of the shards and indexes, by name."""
    return {name: digest for name, digest in hashes_of_files(out).items() if "/" in str(name)}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    lines = [json.dumps({"text": text}) + "\n" for text in TEXTS]
    (folder / "rows.jsonl").write_text("".join(lines))
    flat.prepare(folder / "rows.jsonl", folder / "out", **SETTINGS)
    return shards(folder / "out")


def text_of(out, split):
    """The bytes of all documents, without the ends between them."""
    data = tokenmill.open(out, split)
    ids = data.tokens(0, data.num_tokens)
    return bytes(ids[ids < 256].astype("u1"))


class OnlyStream:
    """A table of a library that we do not know."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def rows():
    return [{"id": number, "text": text, "odd": object()} for number, text in enumerate(TEXTS)]


def pyarrow_table(**columns):
    return pytest.importorskip("pyarrow").table(columns)


def saved_by_datasets(format=None):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": ["dropped", *TEXTS], "n": list(range(2501))})
    return data.with_format(format).select(range(1, 2501))


HOLDERS = {
    "list": lambda: TEXTS,
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "list of mappings": rows,
    "iterator of mappings": lambda: iter(rows()),
    "dict values": lambda: dict(enumerate(TEXTS)).values(),
    "pyarrow table": lambda: pyarrow_table(n=range(2500), text=TEXTS),
    "pyarrow batches, once": lambda: pyarrow_table(text=TEXTS).to_reader(99),
    "pyarrow, binary": lambda: pyarrow_table(text=[text.encode() for text in TEXTS]),
    "pyarrow column": lambda: pyarrow_table(text=TEXTS)["text"],
    "any stream": lambda: OnlyStream(pyarrow_table(text=TEXTS)),
    "pandas frame": lambda: pytest.importorskip("pandas").DataFrame({"text": TEXTS}),
    "pandas series": lambda: pytest.importorskip("pandas").Series(TEXTS),
    "polars frame": lambda: pytest.importorskip("polars").DataFrame({"text": TEXTS}),
    "polars series": lambda: pytest.importorskip("polars").Series(TEXTS),
    "datasets": saved_by_datasets,
    "datasets, formatted": lambda: saved_by_datasets("numpy"),
    "datasets, streamed": lambda: saved_by_datasets().to_iterable_dataset(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_held_texts_give_the_shards_of_a_file(holder, expected, tmp_path):
    summary = flat.prepare(HOLDERS[holder](), tmp_path / "out", **SETTINGS)

    assert shards(tmp_path / "out") == expected
    assert summary.documents_written == len(TEXTS)


def test_the_same_texts_are_the_same_input_whatever_holds_them(tmp_path):
    flat.prepare(TEXTS, tmp_path / "out", **SETTINGS)

    again = flat.prepare(pyarrow_table(text=TEXTS), tmp_path / "out", **SETTINGS)

    assert again.already_there


PROGRAM = """
import json, sys, os, signal
from flat import prepare
from tokenmill.base.progress import Progress

class Killed(Progress):
    def follow(self, what, results, **options):
        for number, result in enumerate(super().follow(what, results, **options), 1):
            yield result
            if what == "encode" and number == 3:
                os.kill(os.getpid(), signal.SIGKILL)

moment, holder = sys.argv[1:]
texts = json.load(open("texts.json"))
given = {"tokenizer": "bytes"}

def once():
    for number, text in enumerate(texts):
        if moment == "consuming" and number == 2000:
            os.kill(os.getpid(), signal.SIGKILL)
        yield text

def table():
    import pyarrow
    return pyarrow.table({"n": range(len(texts)), "text": texts})

if holder == "iterator":
    held = once()
elif holder == "pandas frame":
    held = table().to_pandas()
elif holder == "arrow stream":
    held = table().to_reader(99)
elif holder == "template":
    halves = [{"begin": text[:9], "end": text[9:]} for text in texts]
    held, given["text_field"] = iter(halves), "{begin}{end}"
elif holder in ("tokenizer object", "tokenizer file"):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    known.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.decoder = decoders.ByteLevel()
    known.add_special_tokens([AddedToken("</s>", special=True)])
    known.save("known.json")
    held, given["tokenizer"] = texts, known if holder == "tokenizer object" else "known.json"
elif holder == "folder of save_to_disk":
    import pyarrow
    held = "saved"
    if not os.path.exists(held):
        os.mkdir(held)
        with pyarrow.ipc.new_stream("saved/data.arrow", table().schema) as writer:
            writer.write_table(table(), 99)
        for name in ("state.json", "dataset_info.json"):
            open(f"saved/{name}", "w").write("{}")

prepare(held, "out", unit_bytes=20_000, workers=1, **given,
        progress=Killed() if moment == "encoding" else Progress())
"""
KILLED = [
    ("consuming", "iterator"),
    *(
        ("encoding", holder)
        for holder in (
            *("iterator", "pandas frame", "arrow stream", "template", "tokenizer object"),
            "folder of save_to_disk",
        )
    ),
]


@pytest.mark.parametrize(("moment", "holder"), KILLED)
def test_a_killed_run_resumes_to_the_same_bytes(moment, holder, expected, tmp_path):
    if holder not in ("iterator", "template", "tokenizer object"):
        pytest.importorskip("pyarrow")
    for holds, package in (("pandas frame", "pandas"), ("tokenizer object", "tokenizers")):
        if holder == holds:
            pytest.importorskip(package)
    path = f"{SOURCE}:{Path(__file__).parents[1]}"

    def run(moment, holder=holder, folder=tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "texts.json").write_text(json.dumps(TEXTS))
        command = [sys.executable, "-P", "-c", PROGRAM, moment, holder]
        environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode

    if holder == "tokenizer object":
        assert run("none", "tokenizer file", tmp_path / "whole") == 0
        expected = shards(tmp_path / "whole" / "out")

    assert run(moment) == -signal.SIGKILL
    assert not (tmp_path / "out" / "dataset_metadata.json").exists()

    assert run("none") == 0
    assert shards(tmp_path / "out") == expected


def test_held_texts_are_held_out_whole_and_named(tmp_path):
    tokenmill.prepare(
        (text for text in TEXTS), tmp_path / "out", val_input={"code": TEXTS[:7]}, tokenizer="bytes"
    )

    assert text_of(tmp_path / "out", "val_code") == "".join(TEXTS[:7]).encode()
    assert text_of(tmp_path / "out", "train") == "".join(TEXTS[7:]).encode()


@given(st.lists(st.text(), min_size=1))
@settings(max_examples=60)
def test_json_lines_give_back_any_text(texts):
    """Half surrogate pairs too: they are the reader's to refuse or repair."""
    lines = b"".join(json_lines(iter(texts), ReadRules(text_field='a "field"'))).splitlines()

    assert [json.loads(line) for line in lines] == [{'a "field"': text} for text in texts]


def test_a_template_joins_columns_of_a_table(tmp_path):
    table = pyarrow_table(title=["A", "B"], body=[{"text": "x"}, {"text": "y"}])
    template = "# {title}\n\n{body.text}."

    tokenmill.prepare(table, tmp_path / "out", text_field=template, tokenizer="bytes")

    assert text_of(tmp_path / "out", "all") == b"# A\n\nx.# B\n\ny."


BAD = {
    "number": (5, TypeError, "inputs or val_input is of the type int; give paths; or texts"),
    "bytes": (b"text", TypeError, "inputs or val_input is of the type bytes"),
    "dict of splits": ({"train": TEXTS}, TypeError, r"several splits, one: inputs\[.train.\]"),
    "empty list": ([], ValueError, "no input was given"),
    "empty iterator": (iter([]), ValueError, "no input was given"),
    "tuples": ([("a", 1)], BadInputError, "item 1 of inputs or val_input is of the type tuple"),
    "late number": ([*TEXTS, 7], BadInputError, "item 2,501 of inputs or val_input is .* int"),
    "no field": ([{"text": "a"}, {"body": "b"}], BadInputError, "jsonl:2: no field 'text' in an"),
    "null": (["a b", None], BadInputError, "jsonl:2: field 'text' is null"),
    "bytes in a row": ([{"text": b"a"}], BadInputError, "item 1 of inputs: .*bytes"),
    "half a pair": (["a \ud800"], BadInputError, "jsonl:1: not JSON"),
    "column": (lambda: pyarrow_table(body=["a"]), BadInputError, "column 'text': no such column"),
    "not UTF-8": (lambda: pyarrow_table(text=[b"a", b"\xff"]), BadInputError, "jsonl:2: not JSON"),
    "numbers": (lambda: pyarrow_table(text=[1]), BadInputError, "column 'text': holds int64"),
    "set of paths": ({os.sep}, ValueError, "has the text '/', which names a file; pass a list"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_holds_no_texts_is_refused_with_its_type_and_place(case, tmp_path):
    value, kind, message = BAD[case]

    with pytest.raises(kind, match=message):
        tokenmill.prepare(value() if callable(value) else value, tmp_path / "out")

    assert not (tmp_path / "out" / "dataset_metadata.json").exists()


@pytest.mark.parametrize("text", ["Once upon a time. " * 50, "hello", "two\nlines"])
def test_a_string_that_names_no_file_is_shown_short_with_both_readings(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(PrepareError, match="no such file") as refused:
        tokenmill.prepare(text, "out")

    assert text[:80].strip() in str(refused.value).replace("\\n", "\n")
    assert text[:82] == text or text[:82] not in str(refused.value)
    assert "holds no files; a text, and not a path? In Python pass [text]" in refused.value.hint


@pytest.mark.parametrize(
    ("inputs", "holds_texts"),
    [
        (["a.txt", "b.txt"], False),
        (["my notes.txt"], False),
        (["some/old folder"], False),
        (["corpus/*.jsonl"], False),
        (["s3://bucket/some key"], False),
        (["hello"], False),
        (["hello world"], True),
        (["one", "two words", "three.js"], True),
        (["one\ntwo"], True),
        (["/", "two words"], False),
        ([Path("two words")], False),
        (iter([Path("two words")]), False),
        (iter(["hello"]), True),
        ([{"text": "a"}], True),
    ],
)
def test_a_list_is_texts_only_where_it_cannot_be_paths(inputs, holds_texts):
    found = list(paths_or_texts(inputs))

    assert (len(found) == 1 and not isinstance(found[0], str | Path)) == holds_texts
