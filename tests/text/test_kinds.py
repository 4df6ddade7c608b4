"""JSON lines, CSV and parquet give the texts that their own libraries read from them."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text.naive import one_source, read_all

from tokenmill.errors import BadInputError, MissingExtraError
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.bad_input import BadInputPlace, TooLargeError
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit

SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]))
SKIP = ReadRules(on_bad_input="skip")
REPLACE = ReadRules(on_bad_input="replace")


@SETTINGS
@given(
    texts=st.lists(STRINGS),
    unit_bytes=st.integers(1, 200),
    chunk_bytes=st.integers(1, 200),
    newline=st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
)
def test_json_lines_of_any_text_come_back_whatever_the_units(
    tmp_path, texts, unit_bytes, chunk_bytes, newline
):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"id": 1, "text": t}, ensure_ascii=len(t) % 2 == 0) for t in texts]
    path.write_text(newline.join(lines), newline="")

    documents, dropped, _ = read_all(
        path, ReadRules(), unit_bytes=unit_bytes, chunk_bytes=chunk_bytes
    )

    assert documents == [text.encode() for text in texts if text]
    assert dropped.get("empty", 0) == texts.count("")


BAD_LINES = [
    (b'{"text": "cut', "not JSON"),
    (b"nonsense", "not JSON"),
    (b'{"text": "a", "x": NaN}', "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b'{"text": "a"} {"text": "b"}', "not JSON"),
    (b'{"other": "a"}', "missing field"),
    (b'["text"]', "missing field"),
    (b'"text"', "missing field"),
    (b"17", "missing field"),
    (b'{"text": null}', "field is not a string"),
    (b'{"text": ["a"]}', "field is not a string"),
    (b'{"text": 3.5}', "field is not a string"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_bad_json_line_is_an_error_with_its_line_or_is_counted(tmp_path, line, reason):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "one"}\n\n' + line + b'\n{"text": "two"}\n')

    for chunk_bytes in (16, 1 << 20):
        with pytest.raises(BadInputError, match=r"^a\.jsonl:3: ") as bad:
            read_all(path, ReadRules(), chunk_bytes=chunk_bytes)
        assert bad.value.source == "a.jsonl"
        assert bad.value.hint
        for rules in (SKIP, REPLACE):
            documents, dropped, _ = read_all(path, rules, chunk_bytes=chunk_bytes)
            assert documents == [b"one", b"two"]
            assert dropped == {reason: 1}


def test_what_can_be_repaired_in_json_lines_is_replaced(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "bad \xff byte"}\n{"text": "lone \\ud800 half"}\n{"text": "\\ud83d\\ude00"}\n'
    )

    documents, dropped, chunks = read_all(path, REPLACE)

    assert [d.decode() for d in documents] == ["bad \ufffd byte", "lone \ufffd half", "\U0001f600"]
    assert (dropped, sum(chunk.replaced for chunk in chunks)) == ({}, 2)
    documents, dropped, _ = read_all(path, SKIP)
    assert (len(documents), dropped) == (1, {"not UTF-8": 1, "not JSON": 1})


def test_a_byte_order_mark_before_json_lines_is_not_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}\n')

    assert read_all(path, ReadRules(), chunk_bytes=5)[0] == [b"a", b"b"]


def test_the_field_is_a_name_or_a_dotted_path(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"doc": {"body": "inner"}}\n{"doc.body": "name", "doc": {"body": "x"}}\n')

    documents, _, _ = read_all(path, ReadRules(text_field="doc.body"))

    assert documents == [b"inner", b"name"]
    with pytest.raises(
        BadInputError, match=r":1: no field 'text' in an object with .*: doc"
    ) as bad:
        read_all(path, ReadRules())
    assert "text_field=" in bad.value.hint


def test_a_json_line_too_large_is_refused_or_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "' + b"x" * 9000 + b'"}\n{"text": "b"}\n')

    with pytest.raises(BadInputError, match=r"at byte 14: .* more than 1,000 bytes"):
        read_all(path, ReadRules(max_document_bytes=1000), chunk_bytes=100)
    rules = ReadRules(max_document_bytes=1000, on_bad_input="skip")
    for unit_bytes in (50, 1 << 20):
        documents, dropped, _ = read_all(path, rules, chunk_bytes=100, unit_bytes=unit_bytes)
        assert (documents, dropped) == ([b"a", b"b"], {"too large": 1})


@SETTINGS
@given(
    texts=st.lists(STRINGS.filter(lambda text: "\x00" not in text)), chunk_bytes=st.integers(1, 99)
)
def test_csv_fields_of_any_text_come_back(tmp_path, texts, chunk_bytes):
    path = tmp_path / "a.csv"
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerows([["id", "text"], *([n, text] for n, text in enumerate(texts))])
    path.write_text(out.getvalue(), newline="", encoding="utf-8")

    documents, dropped, _ = read_all(path, ReadRules(), chunk_bytes=chunk_bytes)

    assert documents == [text.encode() for text in texts if text]
    assert dropped.get("empty", 0) == texts.count("")


def test_csv_faults_are_errors_with_their_row_or_are_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\n1,one\n2\n4,no \xff utf8\n5,"two\nlines"\n')

    with pytest.raises(BadInputError, match=r"a\.csv, row 2: 1 columns, but 'text' is column 2"):
        read_all(path, ReadRules())
    documents, dropped, _ = read_all(path, SKIP)
    assert documents == [b"one", b"two\nlines"]
    assert dropped == {"missing field": 1, "not UTF-8": 1}
    documents, dropped, _ = read_all(path, REPLACE)
    assert documents == [b"one", "no \ufffd utf8".encode(), b"two\nlines"]
    with pytest.raises(
        BadInputError, match="column 'body': no such column; the header has: id, text"
    ):
        read_all(path, ReadRules(text_field="body"))


def test_a_csv_field_may_be_large_but_not_without_limit(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\n"' + b"line\n" * 60_000 + b'"\n')

    documents, _, _ = read_all(path, ReadRules())
    assert documents == [b"line\n" * 60_000]
    with pytest.raises(
        BadInputError, match="row 1: the row that starts on line 2 has more than 1,000"
    ):
        read_all(path, ReadRules(max_document_bytes=1000))
    assert csv.field_size_limit() == 131072


ROWS = [f"{n},row {n}" for n in range(1000)]
NOT_CSV = "not CSV, with the rest of the file"
TOO_LARGE = "too large, with the rest of the file"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("bad", "after"),
    [
        ('2,"unclosed', []),
        ('2,"unclosed', ['1,"quoted"']),
        ('2,"unclosed', ['1,"two\nlines"']),
        ('2,"bad" quote', []),
    ],
)
def test_a_row_that_is_not_csv_ends_the_file(tmp_path, pack, bad, after):
    path = tmp_path / "a.csv"
    path.write_bytes(pack("\n".join(["id,text", '1,"fir\nst"', bad, *ROWS, *after]).encode()))

    documents, dropped, chunks = read_all(path, SKIP, chunk_bytes=5)

    assert (documents, dropped) == ([b"fir\nst"], {NOT_CSV: 1})
    places = [place for chunk in chunks for place in chunk.places]
    assert places == [BadInputPlace("row", 2, NOT_CSV)]
    assert sum(chunk.bytes_in for chunk in chunks) == path.stat().st_size
    message = r"^a\.csv, row 2: not CSV: .*, in the row that starts on line 4\n"
    with pytest.raises(BadInputError, match=message) as refused:
        read_all(path, ReadRules())
    assert "leaves out the file from this row on" in refused.value.hint


def test_a_quote_that_is_not_closed_in_the_last_line_of_a_csv_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\none\n"unclosed')

    assert read_all(path, SKIP)[:2] == ([b"one"], {NOT_CSV: 1})
    with pytest.raises(BadInputError, match=r"row 2: not CSV: .* starts on line 3"):
        read_all(path, ReadRules())


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "large", ['2,"' + 'a line, and ""another""\n' * 30_000 + '"', "3," + "x" * 600_000]
)
def test_a_csv_row_that_is_too_large_ends_the_file_and_is_measured(tmp_path, pack, newline, large):
    path = tmp_path / "a.csv"
    path.write_bytes(pack(newline.join(["id,text", "1,first", large, "4,last"]).encode()))

    rules = ReadRules(on_bad_input="skip", max_document_bytes=1000)
    assert read_all(path, rules)[:2] == ([b"first"], {TOO_LARGE: 1})
    with pytest.raises(TooLargeError, match="row 2: the row that starts on line 3 has") as refused:
        read_all(path, ReadRules(max_document_bytes=1000))
    assert refused.value.size == len(large) + len(newline)


TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_parquet_columns_of_every_text_type_come_back(tmp_path, kind):
    path = tmp_path / "a.parquet"
    texts = [f"text {n} \u00e9 " * (n % 5) for n in range(103)]
    value = texts if not pa.types.is_binary(kind) else [text.encode() for text in texts]
    table = pa.table({"id": list(range(103)), "text": pa.array(value, kind)})
    pq.write_table(table, path, row_group_size=10)
    source = one_source(path)

    units = cut_into_units([source], 500)
    documents, dropped, chunks = read_all(path, ReadRules(), unit_bytes=500, chunk_bytes=64)

    assert 1 < len(units) <= 11
    assert documents == [text.encode() for text in texts if text]
    assert dropped == {"empty": texts.count("")}
    assert max(sum(map(len, chunk.texts)) for chunk in chunks) < 500


def test_parquet_faults_are_errors_with_their_row_or_are_counted(tmp_path):
    path = tmp_path / "a.parquet"
    column = pa.array([b"one", None, b"bad \xff", b"two"], pa.binary())
    pq.write_table(pa.table({"text": column, "n": [1, 2, 3, 4]}), path, row_group_size=2)

    with pytest.raises(BadInputError, match=r"a\.parquet, row 2: column 'text' is null"):
        read_all(path, ReadRules())
    documents, dropped, _ = read_all(path, SKIP)
    assert (documents, dropped) == ([b"one", b"two"], {"missing field": 1, "not UTF-8": 1})
    pq.write_table(pa.table({"text": pa.array([b"a", b"b", b"\xff"])}), path, row_group_size=2)
    with pytest.raises(BadInputError, match=r"a\.parquet, row 3: not UTF-8"):
        read_all(path, ReadRules(), unit_bytes=1)
    pq.write_table(pa.table({"text": column, "n": [1, 2, 3, 4]}), path, row_group_size=2)
    documents, _, _ = read_all(path, REPLACE)
    assert documents == [b"one", "bad \ufffd".encode(), b"two"]
    with pytest.raises(BadInputError, match="no such column; the file has: text, n"):
        read_all(path, ReadRules(text_field="body"))
    with pytest.raises(BadInputError, match="column 'n': holds int64, not text"):
        read_all(path, ReadRules(text_field="n"))


def test_parquet_structs_are_reached_by_a_dotted_path(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"doc": [{"body": "a", "n": 1}, {"body": "b", "n": 2}]}), path)

    documents, _, _ = read_all(path, ReadRules(text_field="doc.body"))

    assert documents == [b"a", b"b"]


def test_damaged_parquet_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["word " * 50] * 1000}), path, compression="gzip")
    data = bytearray(path.read_bytes())
    for at in range(10, 200):
        data[at] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(BadInputError, match=r"a\.parquet is damaged"):
        read_all(path, ReadRules())


def test_parquet_files_are_closed_however_reading_ends(tmp_path):
    """Read whole, left in the middle, refused or damaged: Python has no open file to warn of."""
    pq.write_table(pa.table({"text": ["word " * 50] * 900}), tmp_path / "a.parquet")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    (tmp_path / "footer.parquet").write_bytes(b"PAR1" + bytes(90) + b"PAR1")
    data[10:200] = bytes(190)
    (tmp_path / "pages.parquet").write_bytes(data)
    code = """if True:
        import os
        from tokenmill.errors import BadInputError
        from tokenmill.preparation.estimate import estimate
        from tokenmill.text.inputs.sources import find_sources
        from tokenmill.text.inputs.units import cut_into_units
        from tokenmill.text.reading.chunks import ReadRules
        from tokenmill.text.reading.read import read_unit

        def read(name, **rules):
            (source,) = find_sources(name)
            (unit,) = cut_into_units([source], 1 << 20)
            return read_unit(source, unit, ReadRules(**rules, chunk_bytes=1000))

        def num_open():
            return len(os.listdir("/proc/self/fd"))

        before = num_open()
        assert sum(len(chunk.texts) for chunk in read("a.parquet")) == 900
        next(read("a.parquet"))
        begun = read("a.parquet")
        next(begun)
        assert num_open() == before + 1
        del begun
        assert estimate("a.parquet", tokenizer="bytes").documents > 0
        for name, rules in (
            ("a.parquet", {"text_field": "body"}), ("pages.parquet", {}), ("footer.parquet", {})
        ):
            try:
                list(read(name, **rules))
            except BadInputError as error:
                print(error.message)
        assert num_open() == before
    """

    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 3


def test_an_empty_parquet_file_holds_no_documents(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)

    documents, dropped, _ = read_all(path, ReadRules())

    assert (documents, dropped) == ([], {})


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    source = one_source(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match=r"needs the package pyarrow") as missing:
        cut_into_units([source], 100)
    assert missing.value.hint == 'pip install "tokenmill[parquet]"'


def test_a_source_that_changed_is_refused_before_and_after_reading(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"line\n" * 100)
    source = one_source(path)
    chunks = read_unit(source, Unit(0, 0, 500), ReadRules(document_is="line", chunk_bytes=50))
    next(chunks)
    with path.open("ab") as file:
        file.write(b"more\n")

    with pytest.raises(
        Exception, match=r"a\.txt changed while it was read: it had 500 bytes, and has 505"
    ):
        list(chunks)
    with pytest.raises(Exception, match="changed"):
        next(read_unit(source, Unit(0, 0, 500), ReadRules()))


def test_a_chunk_of_a_parquet_file_has_at_most_65536_rows(tmp_path):
    """Rows may be as small as a byte, and each is an object in memory."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"] * 140_000}), path)

    chunks = list(read_unit(one_source(path), Unit(0, 0, 1), ReadRules()))

    assert [len(chunk.texts) for chunk in chunks] == [65_536, 65_536, 8_928]
