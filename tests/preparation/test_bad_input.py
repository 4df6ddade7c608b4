"""Bad input through a whole preparation: an error that names it, or counted in the accounts."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys

import pytest
import xxhash
from flat import prepare
from preparation import oracle
from preparation.oracle import accounts_of, read_dataset

from tokenmill.base.progress import Progress
from tokenmill.base.zstd import zstd_library
from tokenmill.errors import BadInputError, PrepareError, SettingsMismatchError

BYTES = {"tokenizer": "bytes", "workers": 1, "val_fraction": 0}


def texts_of(out):
    return [bytes(ids[:-1]).decode() for ids in read_dataset(out)["train"]]


@pytest.mark.parametrize(
    ("name", "data", "where"),
    [
        ("a.txt", b"good \xff bad", r"a\.txt at byte 5"),
        ("a.jsonl", b'{"text": "one"}\n{"text": \n', r"a\.jsonl:2"),
        ("a.jsonl", b'{"text": "one"}\n\n{"body": "x"}\n', r"a\.jsonl:3.*no field 'text'"),
        ("a.jsonl", b'{"text": 5}\n', r"a\.jsonl:1.*not a string"),
        ("a.jsonl", b'{"text": "x\xff"}\n', r"a\.jsonl:1.*not UTF-8"),
        ("a.txt.gz", gzip.compress(b"text " * 99, mtime=0)[:-9], r"a\.txt\.gz is cut short"),
        ("a.txt.xz", lzma.compress(os.urandom(9999))[:-30], r"a\.txt\.xz is cut short"),
        ("a.txt.bz2", bz2.compress(b"text " * 99)[:-9], r"a\.txt\.bz2 is cut short"),
    ],
)
def test_an_error_names_file_and_place(tmp_path, name, data, where):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInputError, match=where) as bad:
        prepare(tmp_path / name, tmp_path / "out", **BYTES)
    assert bad.value.source == name
    assert not (tmp_path / "out" / "dataset_metadata.json").exists()


def test_a_truncated_zst(tmp_path):
    zstd = pytest.importorskip("backports.zstd")
    (tmp_path / "a.txt.zst").write_bytes(zstd.compress(b"text " * 999)[:-4])
    with pytest.raises(BadInputError, match="is cut short"):
        prepare(tmp_path / "a.txt.zst", tmp_path / "out", **BYTES)


def test_skip_and_replace_are_counted(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"bad \xff text")
    (folder / "b.jsonl").write_bytes(
        b'{"text": "good one"}\n{"text": \n{"body": 1}\n{"text": 5}\n'
        b'{"text": ""}\n{"text": "\xff"}\n'
    )
    (folder / "c.txt").touch()
    prepare(folder, tmp_path / "skip", **BYTES, on_bad_input="skip")
    assert texts_of(tmp_path / "skip") == ["good one"]
    accounts = accounts_of(tmp_path / "skip")
    assert accounts["dropped"] == {
        "empty": 2, "field is not a string": 1, "missing field": 1, "not JSON": 1, "not UTF-8": 2
    }  # fmt: skip
    assert accounts["documents_in"] == 8 == 1 + sum(accounts["dropped"].values())
    prepare(folder, tmp_path / "replace", **BYTES, on_bad_input="replace")
    assert texts_of(tmp_path / "replace") == ["bad \ufffd text", "good one", "\ufffd"]
    accounts = accounts_of(tmp_path / "replace")
    assert accounts["texts_replaced"] >= 2
    assert accounts["documents_in"] == 8 == 3 + sum(accounts["dropped"].values())


def test_the_first_places_of_bad_input_are_reported_whatever_the_workers(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"bad \xff text")
    lines = [b'{"text": "line %d of the file"}' % n for n in range(300)]
    lines[0], lines[7], lines[150], lines[299] = b"{", b'{"text": "\xff"}', b"{}", b'{"text": 5}'
    (folder / "b.jsonl").write_bytes(b"\n".join(lines))
    (folder / "c.csv").write_bytes(b'id,text\n1,one\n2,b\n3,\xff\n4\n5,"un\n6,x')
    parquet.write_table(pyarrow.table({"text": ["a", None]}), folder / "d.parquet")
    expected = [
        "a.txt at byte 4: not UTF-8",
        "b.jsonl:1: not JSON",
        "b.jsonl:8: not UTF-8",
        "b.jsonl:151: missing field",
        "b.jsonl:300: field is not a string",
        "c.csv, row 3: not UTF-8",
        "c.csv, row 4: missing field",
        "c.csv, row 5: not CSV, with the rest of the file",
        "d.parquet, row 2: missing field",
    ]
    for number, (workers, unit_bytes, dedup) in enumerate(
        [(1, 1 << 20, "none"), (2, 500, "none"), (1, 300, "lines")]
    ):
        given = {**BYTES, "workers": workers, "unit_bytes": unit_bytes, "dedup": dedup}
        done = prepare(folder, tmp_path / str(number), **given, on_bad_input="skip")
        assert done.bad_input == expected
    replaced = prepare(folder, tmp_path / "replaced", **BYTES, on_bad_input="replace").bad_input
    assert [place for place in replaced if place.endswith(", replaced")] == [
        "a.txt at byte 4: not UTF-8, replaced",
        "b.jsonl:8: not UTF-8, replaced",
        "c.csv, row 3: not UTF-8, replaced",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"document_is": "word"}, "expected file or line or paragraph"),
        ({"on_bad_input": "ignore"}, "known are: error, skip, replace"),
        ({"separator": "x", "document_is": "line"}, "both say where"),
        ({"separator": ""}, "separator is empty"),
        ({"text_field": ""}, "text_field is empty"),
        ({"long_line": 0}, "at least 1"),
    ],
)
def test_rules_of_reading_that_make_no_sense_are_refused(tmp_path, wrong, message):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "a.txt", tmp_path / "out", **BYTES, **wrong)


def test_twenty_places_are_reported_and_all_are_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text("{\n" * 500 + '{"text": "good"}\n')
    done = prepare(
        tmp_path / "a.jsonl", tmp_path / "out", **BYTES, unit_bytes=30, on_bad_input="skip"
    )
    assert done.bad_input == [f"a.jsonl:{n}: not JSON" for n in range(1, 21)]
    assert done.dropped == {"not JSON": 500}


def test_files_that_cannot_be_read_at_all_are_errors_or_counted(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.csv").write_text("text\ngood\n")
    (folder / "empty.csv").touch()
    (folder / "other.csv").write_text("body\nx\n")
    parquet.write_table(pyarrow.table({"body": ["x"] * 9}), folder / "p.parquet", row_group_size=2)
    for bad, what in [
        ("empty.csv", "is empty"),
        ("other.csv", "no such"),
        ("p.parquet", "no such"),
    ]:
        with pytest.raises(BadInputError, match=f"{bad}: .*{what}"):
            prepare([folder / "good.csv", folder / bad], tmp_path / bad / "out", **BYTES)
    done = prepare(folder, tmp_path / "out", **BYTES, on_bad_input="skip", unit_bytes=1)
    assert texts_of(tmp_path / "out") == ["good"]
    assert done.dropped == {"empty file": 1, "missing column": 2}
    assert done.bad_input == [
        "empty.csv: empty file", "other.csv: missing column", "p.parquet: missing column"
    ]  # fmt: skip


@pytest.mark.parametrize("unit_bytes", [7, 1 << 20])
def test_documents_of_repeated_lines_only_are_not_called_empty(tmp_path, unit_bytes):
    line = "a line that is said again and again"
    (tmp_path / "a.txt").write_text(f"{line}\n\n{line}\n\nother words\n\n{line}\n{line}\n")
    given = {**BYTES, "document_is": "paragraph", "long_line": 40, "unit_bytes": unit_bytes}
    given |= {"clean": True, "dedup": "lines"}
    done = prepare(tmp_path / "a.txt", tmp_path / "out", **given)
    assert texts_of(tmp_path / "out") == [line, "other words"]
    assert done.dropped == {"only repeated lines": 2}


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.gz"])
def test_parquet_inside_a_compressed_stream(tmp_path, name):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [f"text {n}" for n in range(100)]
    parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet", row_group_size=30)
    packed = gzip.compress((tmp_path / "a.parquet").read_bytes())
    (tmp_path / name).write_bytes(packed)
    prepare(tmp_path / name, tmp_path / "out", **BYTES, unit_bytes=100)
    assert texts_of(tmp_path / "out") == texts
    assert accounts_of(tmp_path / "out")["bytes_in"] == len(packed)
    (tmp_path / name).write_bytes(packed[:-20])
    with pytest.raises(BadInputError, match="is cut short"):
        prepare(tmp_path / name, tmp_path / "cut", **BYTES)
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(BadInputError, match=r"b\.parquet\.gz is named \.parquet, but"):
        prepare(tmp_path / "b.parquet.gz", tmp_path / "none", **BYTES)


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("c.txt", '{"text": "a"}\n{"text": "b"}\n', "c.txt looks like JSON lines"),
        ("c.txt", '{"text": "a"}\nplain\n', None),
        ("c", "id,text\n1,a\n", "c looks like CSV"),
        ("c.txt", "id,text\n1,a\n", None),
        ("c", "a title, and text\nmore\n", None),
    ],
)
def test_text_that_looks_like_rows_is_read_as_text_and_said_so(tmp_path, name, text, note):
    (tmp_path / name).write_text(text)
    done = prepare(tmp_path / name, tmp_path / "out", **BYTES, dedup="none")
    assert texts_of(tmp_path / "out") == [text]
    notes = [found for found in done.notes if "looks like" in found]
    assert [found.startswith(note) for found in notes] == ([True] if note else [])


def test_nul_bytes_stay_unless_cleaned(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\0b")
    prepare(tmp_path / "a.txt", tmp_path / "raw", **BYTES)
    prepare(tmp_path / "a.txt", tmp_path / "clean", **BYTES, clean=True)
    assert (texts_of(tmp_path / "raw"), texts_of(tmp_path / "clean")) == (["a\0b"], ["ab"])


def test_names_of_all_kinds(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    names = [
        b"with space.txt",
        b"new\nline.txt",
        b"caf\xe9.txt",
        b"100%.txt",
        "\u00e9.txt".encode(),
    ]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(b"text of " + name.hex().encode())
    prepare(folder, tmp_path / "out", **BYTES)
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    recorded = [source["name"] for source in manifest["sources"]]
    assert recorded == sorted(
        ["with space.txt", "new%0Aline.txt", "caf%E9.txt", "100%25.txt", "\u00e9.txt"],
        key=str.encode,
    )
    assert len(texts_of(tmp_path / "out")) == 5


def test_kinds_mixed_in_one_run(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.txt").write_text("plain text")
    (folder / "2.jsonl").write_text('{"text": "json lines"}\n')
    (folder / "3.csv").write_text('id,text\n1,"comma, separated"\n')
    parquet.write_table(pyarrow.table({"text": ["parquet"]}), folder / "4.parquet")
    (folder / "5.txt.gz").write_bytes(gzip.compress(b"compressed text", mtime=0))
    (folder / "6.jsonl.xz").write_bytes(lzma.compress(b'{"text": "compressed json"}\n'))
    prepare(folder, tmp_path / "out", **BYTES)
    assert texts_of(tmp_path / "out") == [
        "plain text", "json lines", "comma, separated", "parquet", "compressed text",
        "compressed json",
    ]  # fmt: skip


def test_an_input_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("some words\n" * 50)

    class Growing(Progress):
        def say(self, text):
            pass

        def follow(self, what, results, **_):
            for result in results:
                path.write_text("other words, and more of them\n" * 50)
                yield result

    with pytest.raises(PrepareError, match=r"a\.txt changed while it was read") as changed:
        prepare(path, tmp_path / "out", **BYTES, unit_bytes=100, progress=Growing())
    assert changed.value.source == "a.txt"


def test_a_folder_in_place_of_a_file_and_a_dead_link(tmp_path):
    (tmp_path / "link.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PrepareError, match=r"link\.txt") as unreadable:
        prepare(tmp_path / "link.txt", tmp_path / "out", **BYTES)
    assert unreadable.value.source
    assert not (tmp_path / "out").exists()


def piped_name(data):
    """Standard input is known by its content."""
    return f"standard-input-{xxhash.xxh3_128_hexdigest(data)[:16]}"


def test_standard_input(tmp_path):
    def pipe(data, out, *flags):
        return subprocess.run(
            [sys.executable, "-P", "-m", "tokenmill", "prepare", "-", "-o", out, *flags],
            input=data,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(oracle.SOURCE)},
        )

    flags = ("--tokenizer", "bytes", "--val_fraction", "0", "--workers", "1", "--quiet")
    assert pipe(b"a text\nfrom a pipe\n", tmp_path / "out", *flags).returncode == 0
    assert texts_of(tmp_path / "out") == ["a text\nfrom a pipe\n"]
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    assert manifest["sources"] == [
        {"name": piped_name(b"a text\nfrom a pipe\n"), "bytes": 19, "documents": 1}
    ]
    again = pipe(b"another\n", tmp_path / "out", *flags)
    assert again.returncode == 13
    assert not (tmp_path / "out" / ".preparation").exists()
    assert pipe(b'{"text": "a"}\n{"text": "b"}\n', tmp_path / "rows", *flags).returncode == 0
    assert texts_of(tmp_path / "rows") == ["a", "b"]
    bad = pipe(b"bad \xff", tmp_path / "fixed", *flags)
    assert (bad.returncode, b"the same command starts again" in bad.stderr) == (1, True)
    assert pipe(b"fixed", tmp_path / "fixed", *flags).returncode == 0
    assert texts_of(tmp_path / "fixed") == ["fixed"]


def test_standard_input_given_again(tmp_path, monkeypatch):
    """It is known by its content: it has neither a name nor a time of its own."""

    def pipe(data, **how):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return prepare("-", tmp_path / "out", **BYTES, **how)

    first, other = b"the first text of many", b"another text of as many"[:22]
    pipe(first)
    assert pipe(first).notes == ["it was complete already"]
    with pytest.raises(SettingsMismatchError, match=rf"{piped_name(other)}   22 bytes is new"):
        pipe(other)
    with pytest.raises(SettingsMismatchError, match="the input is in"):
        pipe(first, append=True)
    assert pipe(other, append=True).documents_written == 2
    with pytest.raises(SettingsMismatchError, match="the input is in"):
        pipe(other, append=True)
    assert texts_of(tmp_path / "out") == [first.decode(), other.decode()]


def test_the_card_has_a_command_that_works(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    names = [b"-o.txt", b"100%.txt", b"caf\xe9.txt", b"it's a\nname.txt", b"with space.txt"]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(b"text of " + name.hex().encode())
    prepare(folder, tmp_path / "out", **BYTES, separator="\n\t'")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    command = card.partition("```console\n")[2].partition("\n```")[0]
    words = subprocess.run(
        ["bash", "-c", command.replace("tokenmill", "printf '%s\\0'", 1)],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.split(b"\0")
    flags = [b"--val_fraction", b"0", b"--separator", b"\n\t'"]
    assert words[0] == b"prepare"
    assert sorted(words[1:6]) == sorted([b"./-o.txt", *names[1:]])
    assert words[6:8] == [b"-o", b"OUT"]
    assert {b"--separator", b"\n\t'", b"--tokenizer", b"bytes"} <= set(words[8:])
    assert [words[words.index(flag) + 1] for flag in flags[::2]] == flags[1::2]


def test_the_card_of_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a text from a pipe")))
    prepare("-", tmp_path / "out", **BYTES)
    assert "tokenmill prepare - -o OUT" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_a_separator_that_never_occurs_is_noted(tmp_path):
    (tmp_path / "a.txt").write_text("one<|end|>two")
    for separator, noted in [("<|end|>", 0), ("<end>", 1)]:
        out = tmp_path / str(noted)
        summary = prepare(tmp_path / "a.txt", out, **BYTES, separator=separator)
        expected = (
            f"no text file was cut at the separator {separator!r}: is it spelled as in the text?"
        )
        assert summary.notes == [expected][:noted]


def test_standard_input_among_files(tmp_path, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.txt", "z.txt"):
        (folder / name).write_text(f"the text of {name}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a text from a pipe")))
    prepare(["-", folder], tmp_path / "out", **BYTES)
    assert texts_of(tmp_path / "out") == [
        "the text of a.txt",
        "a text from a pipe",
        "the text of z.txt",
    ]
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    names = ["a.txt", piped_name(b"a text from a pipe"), "z.txt"]
    assert [source["name"] for source in manifest["sources"]] == names
    with pytest.raises(ValueError, match="given twice"):
        prepare(["-", folder, "-"], tmp_path / "twice", **BYTES)


def test_a_line_longer_than_everything(tmp_path, small):
    """Two million characters in one line, cut in many places, encoded as one document."""
    tokenizer, encode = small
    text = "word after word, 123 and \u4e2d\u6587 " * 20_000
    (tmp_path / "a.txt").write_text(text, "utf-8")
    settings = {"clean": False, "dedup": "none", "val_fraction": 0, **tokenizer}
    prepare(
        tmp_path / "a.txt",
        tmp_path / "out",
        workers=1,
        long_line=5000,
        unit_bytes=100_000,
        **settings,
    )
    (ids,) = read_dataset(tmp_path / "out")["train"]
    assert ids == [*encode(text), int(tokenizer["end_of_text"])]


@pytest.mark.parametrize("dedup", ["lines", "none"])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_file_that_cannot_be_read_is_dropped_and_reported(tmp_path, policy, dedup):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("some text that can be read\n")
    (tmp_path / "in" / "b.txt").symlink_to(tmp_path / "gone")
    (tmp_path / "in" / "c.jsonl.gz").symlink_to("c.jsonl.gz")  # to itself
    wanted = {"tokenizer": "bytes", "workers": 1, "val_fraction": 0, "dedup": dedup}
    with pytest.raises(PrepareError, match=r"cannot read .*b\.txt: No such file"):
        prepare(tmp_path / "in", tmp_path / "out", **wanted)

    summary = prepare(tmp_path / "in", tmp_path / "out", on_bad_input=policy, **wanted)

    assert (summary.documents_in, summary.documents_written) == (3, 1)
    assert summary.dropped == {"unreadable": 2}
    assert [("unreadable" in place, place.split(":")[0]) for place in summary.bad_input] == [
        (True, "b.txt"),
        (True, "c.jsonl.gz"),
    ]


def without_documents(folder):
    """Files of every kind that hold no document; each is named to be read between two others."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    schema = pa.schema([("text", pa.string())])
    with parquet.ParquetWriter(folder / "b.parquet", schema):
        pass  # not even a row group
    with parquet.ParquetWriter(folder / "c.parquet", schema) as rows:
        rows.write_table(schema.empty_table())
    packed = (folder / "b.parquet").read_bytes()
    for name, data in {
        "b.csv": b"text\n",
        "b.jsonl": b"",
        "c.jsonl": b" \n\n",
        "b.jsonl.zst": zstd_library().compress(b""),
        "b.csv.gz": gzip.compress(b"text\n"),
        "d.parquet.gz": gzip.compress(packed),
    }.items():
        (folder / name).write_bytes(data)
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"unit_bytes": 10},
        {"long_line": 8, "tokenizer": "gpt2"},
        {"clean": True, "dedup": "lines", "workers": 2, "unit_bytes": 10},
        {"dedup": "documents", "val_fraction": 0.5},
    ],
)
def test_files_without_documents_change_nothing_but_the_list_of_inputs(tmp_path, settings):
    settings = {"tokenizer": "bytes", "workers": 1, "val_fraction": 0, **settings}
    texts = tmp_path / "texts"
    texts.mkdir()
    empty = without_documents(texts)
    (texts / "a.jsonl").write_text('{"text": "the first of three"}\n{"text": "the second"}\n')
    (texts / "z.txt").write_text("and a text of its own")
    others = [texts / "a.jsonl", texts / "z.txt"]
    prepare(others, tmp_path / "others", **settings)

    prepare(texts, tmp_path / "all", **settings)
    prepare(others[1], tmp_path / "added", **settings)
    prepare([others[0], *(texts / name for name in empty)], tmp_path / "added", append=True)

    assert read_dataset(tmp_path / "all") == read_dataset(tmp_path / "others")
    for name in ("all", "added"):
        manifest = json.loads((tmp_path / name / "dataset_metadata.json").read_bytes())
        listed = {source["name"]: source["documents"] for source in manifest["sources"]}
        assert listed == {**dict.fromkeys(empty, 0), "a.jsonl": 2, "z.txt": 1}
