"""Arrow files and templates of fields: the same documents as JSON lines, wherever a file is cut."""

import csv
import gzip
import json

import pytest

import tokenmill
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import cut_into_units
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit

pyarrow = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = [{"id": i, "title": f"Title {i}", "body": f"\u00e9 {i} " * (i % 7 + 1)} for i in range(900)]
TEMPLATE = "{title}\n\n{body}"
JOINED = [f"{row['title']}\n\n{row['body']}".encode() for row in ROWS]


def write(path, rows=ROWS, **options):
    """Write rows as the suffix of the path says."""
    table = pyarrow.Table.from_pylist(rows)
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=100)
    else:
        new = ipc.new_file if path.stem == "file" else ipc.new_stream
        with new(path, table.schema, **options) as writer:
            writer.write_table(table, max_chunksize=100)


def documents(path, unit_bytes=4000, **rules):
    (source,) = find_sources([path])
    units = cut_into_units([source], unit_bytes)
    chunks = [chunk for unit in units for chunk in read_unit(source, unit, ReadRules(**rules))]
    assert sum(chunk.bytes_in for chunk in chunks) == path.stat().st_size
    return [text for chunk in chunks for text in chunk.texts], len(units)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "file.arrow", "stream.arrow"])
def test_a_template_joins_the_fields_of_every_kind(name, tmp_path):
    write(tmp_path / name)

    assert documents(tmp_path / name, text_field=TEMPLATE)[0] == JOINED
    assert documents(tmp_path / name, text_field="{body}")[0] == [r["body"].encode() for r in ROWS]


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrow"])
@pytest.mark.parametrize("chunk_bytes", [10, 3000, 1 << 20])
def test_arrow_is_cut_between_batches_and_gives_all_rows(name, chunk_bytes, tmp_path):
    write(tmp_path / name)

    texts, num_units = documents(tmp_path / name, text_field="body", chunk_bytes=chunk_bytes)

    assert texts == [row["body"].encode() for row in ROWS]
    assert num_units > 3


def test_arrow_without_a_suffix_packed_or_with_compressed_buffers_is_read(tmp_path):
    write(tmp_path / "stream.arrow")
    (tmp_path / "plain").write_bytes((tmp_path / "stream.arrow").read_bytes())
    (tmp_path / "a.arrow.gz").write_bytes(gzip.compress((tmp_path / "stream.arrow").read_bytes()))
    write(tmp_path / "file.arrow", options=ipc.IpcWriteOptions(compression="zstd"))

    for name in ("plain", "a.arrow.gz", "file.arrow"):
        assert documents(tmp_path / name, text_field=TEMPLATE)[0] == JOINED


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrow"])
def test_damaged_arrow_is_an_error_with_its_name(name, tmp_path):
    write(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for cut in (3, 100, len(whole) // 2):
        (tmp_path / "cut.arrow").write_bytes(whole[:cut])
        with pytest.raises(BadInputError, match=r"cut\.arrow is (damaged|named \.arrow, but)"):
            documents(tmp_path / "cut.arrow", text_field="body")


def test_an_arrow_file_without_rows_has_no_documents(tmp_path):
    schema = pyarrow.schema({"text": pyarrow.string()})
    ipc.new_stream(tmp_path / "a.arrow", schema).close()

    assert documents(tmp_path / "a.arrow") == ([], 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.csv", "a.csv: column 'author': no such column; the header has: id, title, body"),
        ("a.jsonl", "a.jsonl:1: no field 'author' in an object with the fields: id, title, body"),
        ("a.parquet", "a.parquet: column 'author': no such column; the file has: id, title, body"),
        ("a.arrow", "a.arrow: column 'author': no such column; the file has: id, title, body"),
    ],
)
def test_a_field_of_a_template_that_is_missing_is_named_with_its_place(name, message, tmp_path):
    write(tmp_path / name)

    with pytest.raises(BadInputError, match=message):
        documents(tmp_path / name, text_field="{title} by {author}")


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow"])
def test_a_field_of_a_template_that_is_null_is_named_with_its_row_or_left_out(name, tmp_path):
    write(tmp_path / name, [*ROWS[:150], {"id": 1, "title": "t", "body": None}, *ROWS[150:]])

    with pytest.raises(BadInputError, match=r"(:151|, row 151): (column|field) 'body' is null"):
        documents(tmp_path / name, text_field=TEMPLATE)
    assert documents(tmp_path / name, text_field=TEMPLATE, on_bad_input="skip")[0] == JOINED


@pytest.mark.parametrize("template", ["{title", "{title}{", "{}{title}", "{a}}"])
def test_a_template_with_a_stray_brace_is_refused(template):
    if template == "{title":
        assert ReadRules(text_field=template).fields.names == ["{title"]  # the name of a field
        return
    with pytest.raises(ValueError, match="with a brace that is not part of a"):
        ReadRules(text_field=template)


def saved(folder, rows):
    """Write what datasets.save_to_disk writes."""
    folder.mkdir(parents=True)
    write(folder / "data-00000-of-00002.arrow", rows[:500])
    write(folder / "data-00001-of-00002.arrow", rows[500:])
    (folder / "state.json").write_text('{\n  "_data_files": []\n}')
    (folder / "dataset_info.json").write_text('{\n  "features": {}\n}')


def test_a_folder_of_save_to_disk_is_read_without_what_is_about_it(tmp_path):
    saved(tmp_path / "saved", ROWS)

    summary = tokenmill.prepare(tmp_path / "saved", tmp_path / "out", text_field="body")

    assert summary.documents_written == len(ROWS)


def test_a_folder_of_several_saved_splits_is_refused_with_their_names(tmp_path):
    saved(tmp_path / "saved" / "train", ROWS)
    saved(tmp_path / "saved" / "test", ROWS)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')

    with pytest.raises(PrepareError, match="is a dataset of several splits: test, train"):
        tokenmill.prepare(tmp_path / "saved", tmp_path / "out")
