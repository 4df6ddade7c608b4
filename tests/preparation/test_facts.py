"""Facts of documents: each row of documents.parquet leads back to the input of its document."""

import csv
import gzip
import io
import json
import random
import shutil
import signal
import subprocess
import sys

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.runs import assert_nothing_stray, run, start_and_hold
from system_faults import RENAMES, injecting, needs_strace

import tokenmill
from tokenmill.errors import BadInputError, SettingsMismatchError

KEEP = "url,score,doc=meta.id"


def rows_of(number, seed=0):
    chosen = random.Random(seed)
    words = ["tea", "time", "of\nday", "\u00e9t\u00e9", "  blank"]
    for n in range(number):
        text = " ".join(chosen.choices(words, k=chosen.choice([0, 1, 5, 30])))
        url = None if n % 7 == 0 else f"https://example.org/{n}"
        yield {"text": text, "url": url, "score": n / 8, "meta": {"id": n}}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" + "\n" * (n % 9 == 4) for n, row in rows))
    return path


@pytest.fixture(scope="module")
def jsonl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    first = write_jsonl(folder / "a.jsonl", enumerate(rows_of(900)))
    second = write_jsonl(folder / "b.jsonl", enumerate(rows_of(500, seed=1)))
    return [first, second]


def documents(out, split):
    data = tokenmill.open(out, split)
    table = data.facts()
    assert len(table) == data.num_documents
    for row in table.to_pylist():
        yield data, row, data.document(row["document"])[:-1].astype("<u4")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dedup": "documents", "compress": "zstd"},
        {"clean": True, "dedup": "lines", "dedup_min_chars": 1},
        {"val_fraction": 0},
    ],
)
def test_a_row_is_that_of_its_json_line(jsonl, tmp_path, settings):
    prepare(jsonl, tmp_path, tokenizer="bytes", keep=KEEP, unit_bytes=30_000, workers=1, **settings)
    lines = {path.name: path.read_text().split("\n") for path in jsonl}
    is_left_alone = not settings.get("clean") and settings.get("dedup") != "lines"
    seen = 0
    for split in tokenmill.open(tmp_path, "all").details["splits"]:
        for data, row, ids in documents(tmp_path, split):
            given = json.loads(lines[row["source"]][row["row"] - 1])
            kept = (given["url"], given["score"], given["meta"]["id"])
            assert (row["url"], row["score"], row["doc"], row["byte"]) == (*kept, None)
            assert row["id"] == xxhash.xxh3_128_digest(ids.tobytes())
            text = data.tokenizer.decode(ids).decode()
            assert text == given["text"] if is_left_alone else set(text) <= set(given["text"])
            seen += 1
    assert seen > 100


def csv_of(rows):
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["url", "text"])
    writer.writerows([row["url"], row["text"]] for row in rows)
    return file.getvalue().encode()


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "mappings"])
def test_rows_of_tables(tmp_path, kind):
    rows = list(rows_of(400))
    given = path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        path.write_bytes(csv_of(rows))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=70)
    elif kind == "arrow":
        with pa.ipc.new_file(path, pa.Table.from_pylist(rows).schema) as file:
            file.write_table(pa.Table.from_pylist(rows), max_chunksize=64)
    else:
        given = iter(rows)
    out = tmp_path / "out"
    keep = "url" if kind == "csv" else KEEP
    prepare(given, out, tokenizer="bytes", keep=keep, val_fraction=0, unit_bytes=4000, workers=1)
    for data, row, ids in documents(out, "train"):
        wanted = rows[row["row"] - 1]
        assert data.tokenizer.decode(ids).decode() == wanted["text"]
        assert row["url"] == (wanted["url"] or ("" if kind == "csv" else None))
        assert kind == "csv" or (row["score"], row["doc"]) == (
            wanted["score"],
            wanted["meta"]["id"],
        )


@pytest.mark.parametrize(
    ("settings", "suffix"),
    [
        ({"separator": "aba"}, ".txt"),
        ({"document_is": "line"}, ".txt"),
        ({"document_is": "paragraph"}, ".txt"),
        ({"document_is": "paragraph"}, ".txt.gz"),
        ({}, ".txt"),
        ({"long_line": 2000}, ".txt"),
    ],
)
def test_bytes_of_texts(tmp_path, settings, suffix):
    chosen = random.Random(3)
    inputs = tmp_path / "in"
    inputs.mkdir()
    texts = {}
    for n in range(30):
        parts = chosen.choices(
            ["ab", "aba", "\n", "\n \n", "tea time ", "xyz\n\n"], k=400 * (n < 3) + 30
        )
        name = f"{n:02d}{suffix}"
        texts[name] = "".join(parts).encode()
        data = gzip.compress(texts[name]) if suffix.endswith("gz") else texts[name]
        (inputs / name).write_bytes(data)
    out = tmp_path / "out"
    prepare(inputs, out, tokenizer="bytes", facts=True, unit_bytes=3000, workers=1, **settings)
    for split in ("train", "val"):
        for _, row, ids in documents(out, split):
            at, text = row["byte"], ids.astype("u1").tobytes()
            if split == "train" or at:  # the held-out end may begin inside a document
                assert texts[row["source"]][at : at + len(text)] == text
            assert row["row"] is None


def test_a_document_that_the_end_cuts_is_in_both_splits(tmp_path):
    (tmp_path / "a.txt").write_text("one document of some length")
    prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", facts=True, val_fraction=0.3)
    train, val = (tokenmill.open(tmp_path / "out", split).facts() for split in ("train", "val"))
    assert train.equals(val)
    assert train.num_rows == 1


def test_other_programs_read_it(jsonl, tmp_path):
    prepare(jsonl, tmp_path, tokenizer="bytes", keep=KEEP, workers=1)
    path = str(tmp_path / "train" / "documents.parquet")
    ours = tokenmill.open(tmp_path).facts(["source", "row", "id", "url", "score", "doc"])
    names = ", ".join(ours.column_names)
    theirs = duckdb.sql(f"SELECT {names} FROM '{path}'").fetchall()
    assert theirs == [tuple(row.values()) for row in ours.to_pylist()]
    assert polars.read_parquet(path, columns=ours.column_names).to_dicts() == ours.to_pylist()
    assert pandas.read_parquet(path)["doc"].tolist() == ours["doc"].to_pylist()


@pytest.fixture(scope="module")
def arguments(jsonl):
    settings = {"tokenizer": "bytes", "keep": KEEP, "unit_bytes": 60_000}
    return {"inputs": jsonl, "tokens_per_shard": 100_000, **settings}


@pytest.fixture(scope="module")
def untouched(arguments, tmp_path_factory):
    out = tmp_path_factory.mktemp("untouched") / "out"
    prepare(out_dir=out, workers=1, **arguments)
    return hashes_of_files(out)


def test_workers_and_units_change_no_byte(arguments, untouched, tmp_path):
    for number, more in enumerate([{"workers": 2}, {"unit_bytes": 1 << 20}]):
        out = tmp_path / str(number)
        prepare(out_dir=out, **{"workers": 1, **arguments, **more})
        assert hashes_of_files(out) == untouched


@needs_strace
def test_killed_at_renames(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    wanted = {"out_dir": out, "workers": 1, **arguments}
    for number in (12, 20, 24):
        code, _ = run(wanted, injecting(f"signal=SIGKILL:when={number}", RENAMES))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    code, errors = run(wanted)
    assert (code, errors) == (0, "")
    assert hashes_of_files(out) == untouched
    assert_nothing_stray(out)


def test_killed_after_the_facts_of_a_split(arguments, untouched, tmp_path):
    out = tmp_path / "out"
    process = start_and_hold({"out_dir": out, "workers": 1, **arguments}, "facts 1")
    process.kill()
    process.communicate()
    assert (out / "train" / "documents.parquet").exists()
    prepare(out_dir=out, workers=1, **arguments)
    assert hashes_of_files(out) == untouched


def test_added_documents_come_after_those_that_were_there(jsonl, tmp_path):
    rules = {"tokenizer": "bytes", "keep": KEEP, "workers": 1}
    prepare(jsonl, tmp_path / "both", **rules)
    prepare(jsonl[0], tmp_path / "out", **rules)
    prepare(jsonl[1], tmp_path / "out", append=True, workers=1)
    for split in ("train", "val"):
        both, added = (tokenmill.open(tmp_path / at, split).facts() for at in ("both", "out"))
        assert added.equals(both)
    assert_nothing_stray(tmp_path / "out")
    assert tokenmill.verify(tmp_path / "out", full=True).damaged == []


def test_what_a_dataset_has_added_data_must_have(jsonl, tmp_path):
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    prepare(jsonl[0], plain, tokenizer="bytes", workers=1)
    prepare(jsonl[0], kept, tokenizer="bytes", keep="url", workers=1)
    with pytest.raises(SettingsMismatchError, match="made with facts False"):
        prepare(jsonl[1], plain, append=True, facts=True)
    with pytest.raises(SettingsMismatchError, match="made with keep 'url'"):
        prepare(jsonl[1], kept, append=True, keep="url,score")
    tokenmill.convert(kept, tmp_path / "converted", to="tokenmill")
    with pytest.raises(
        SettingsMismatchError, match="has the facts url, and what is added to it sc"
    ):
        prepare(jsonl[1], tmp_path / "converted", append=True, keep="score", workers=1)
    shutil.rmtree(tmp_path / "converted" / ".preparation")
    prepare(jsonl[1], tmp_path / "converted", append=True, keep="url", workers=1)
    assert tokenmill.open(tmp_path / "converted").facts().num_rows > 900


def write_with(path, number, at, value):
    rows = ({"text": "tea", "score": value if n == at else n} for n in range(1, number + 1))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("unit_bytes", [1 << 20, 90_000])
def test_a_field_of_another_type_is_named_with_its_line(tmp_path, unit_bytes):
    path = write_with(tmp_path / "rows.jsonl", 20_000, 17_234, "high")
    rules = {"tokenizer": "bytes", "keep": "score", "unit_bytes": unit_bytes, "workers": 1}
    message = r"rows.jsonl:17,234: 'score' is 'high' \(string\), and the values before it are int64"
    with pytest.raises(BadInputError, match=message):
        prepare(path, tmp_path / "out", **rules)
    assert not (tmp_path / "out" / "dataset_metadata.json").exists()


def test_types_of_two_units_that_differ_are_named_with_the_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = ({"text": "tea " * 30, "n": n if n <= 1000 else str(n)} for n in range(1, 2001))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    at = [line.endswith('"n": "1001"}') for line in path.read_text().splitlines()].index(True) + 1
    before = sum(len(line) + 1 for line in path.read_text().splitlines()[: at - 1])
    rules = {"tokenizer": "bytes", "keep": "n", "unit_bytes": before, "workers": 1}
    with pytest.raises(BadInputError, match=f"rows.jsonl:{at:,}: 'n' is '1001'"):
        prepare(path, tmp_path / "out", **rules)


@pytest.mark.parametrize(
    ("keep", "row", "message"),
    [
        ("meta", {"meta": {"id": 1}}, r"rows.jsonl:1: 'meta' is \{'id': 1\} \(of no plain type\)"),
        ("scroe", {"score": 1}, "no document has a value of 'scroe'"),
    ],
)
def test_what_cannot_be_a_fact_is_refused(tmp_path, keep, row, message):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "tea", **row}) + "\n")
    with pytest.raises(BadInputError, match=message):
        prepare(tmp_path / "rows.jsonl", tmp_path / "out", tokenizer="bytes", keep=keep)


def test_names_that_are_taken_and_files_without_fields(tmp_path):
    (tmp_path / "a.txt").write_text("tea")
    with pytest.raises(ValueError, match="the name 'id' is taken"):
        prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", keep="id")
    with pytest.raises(ValueError, match=r"a\.txt is a text file, which has no fields"):
        prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", keep="url")


def test_without_pyarrow_the_flag_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("tea")
    program = "import sys; sys.modules['pyarrow'] = None; from tokenmill.cli import main; main()"
    wanted = ["prepare", "a.txt", "-o", "out", "--tokenizer", "bytes"]
    command = [sys.executable, "-c", program, *wanted]
    found = subprocess.run([*command, "--facts"], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode != 0
    assert "--facts and --keep" in found.stderr
    assert 'pip install "tokenmill[parquet]"' in found.stderr
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


def test_a_full_check_sees_any_changed_byte(jsonl, tmp_path):
    prepare(jsonl, tmp_path, tokenizer="bytes", keep="url", workers=1)
    path = tmp_path / "train" / "documents.parquet"
    whole = path.read_bytes()
    for at in np.linspace(0, len(whole) - 1, 20).astype(int):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        (damage,) = tokenmill.verify(tmp_path, full=True).damaged
        assert (damage.file, damage.what) == ("train/documents.parquet", "hash")
    path.write_bytes(whole[:-1])
    (damage,) = tokenmill.verify(tmp_path).damaged
    assert damage.what == "size"
