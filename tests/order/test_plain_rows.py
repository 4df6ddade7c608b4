"""examples/plain_rows.py, written from the page alone, gives the rows of BatchLoader."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from spec_vectors import vectors

import tokenmill
from tokenmill import BatchLoader, from_array

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "plain_rows.py"


@pytest.fixture(scope="module")
def reader():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module("plain_rows")
    finally:
        sys.path.remove(str(ROOT / "examples"))


class Listed:
    """Tokens in memory, as the reader takes them."""

    def __init__(self, ids):
        self._ids = ids

    def read(self, start, count):
        return self._ids[start : start + count].tolist()


@pytest.mark.parametrize("kind", ["packed", "documents"])
@pytest.mark.parametrize("order", ["shuffle", "sequential"])
@pytest.mark.parametrize("begin_token", [None, 5000])
@pytest.mark.parametrize(("seed", "size"), [(0, 16), (2**33 + 5, 16), (3, 1), (3, 2)])
def test_rows_of_two_epochs(reader, kind, order, begin_token, seed, size):
    if begin_token is not None and size == 1:
        return  # refused: see below
    lengths = np.random.default_rng(1).geometric(0.08, 70)
    ids = np.arange(lengths.sum(), dtype=np.uint16)
    ends = np.cumsum(lengths)
    options = {"order": order, "begin_token": begin_token}
    loader = BatchLoader(
        from_array(ids, document_ends=ends),
        rows=kind,
        batch_size=1,
        block_size=size,
        seed=seed,
        epochs=2,
        **options,
    )
    num_rows = len(loader) // 2

    for g in [*range(9), num_rows - 1, num_rows, num_rows + 1, 2 * num_rows - 1]:
        batch = loader.batch(g)
        held = reader.tokens(Listed(ids), ends.tolist(), g, size, seed, kind=kind, **options)
        assert batch.tokens[0][batch.segments[0] >= 0].tolist() == held


def test_it_runs_as_the_first_line_says(tmp_path):
    lines = (f"line {i} " + "of the mill " * (i % 9) for i in range(60))
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines))
    tokenmill.prepare(
        tmp_path / "corpus.txt", tmp_path / "data", tokenizer="bytes", tokens_per_shard=1000,
        workers=1,
    )  # fmt: skip
    command = [sys.executable, SCRIPT, tmp_path / "data", "--block_size", "64", "--sample", "3"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    batch = BatchLoader(
        tokenmill.open(tmp_path / "data"), rows="packed", batch_size=4, block_size=64
    ).batch(0)
    held = batch.tokens[3][batch.segments[3] >= 0].tolist()
    assert list(map(int, done.stdout.split())) == held


def test_vectors_of_the_page_hold(reader):
    assert len(vectors("rows")) >= 6
    for expression, value in vectors("rows"):
        assert repr(eval(expression, dict(vars(reader)))) == value, expression


def rows_of_the_page():
    """(tokens of documents, block_size, begin token, rows) of the table in docs/guides/rows.md."""
    text = (ROOT / "docs" / "guides" / "rows.md").read_text()
    shown = re.findall(r"^\| `([^`]+)` \| (\d+) \| (\w+) \| `?([^`|]+?)`? \|$", text, re.MULTILINE)
    for documents, size, begin, rows in shown:
        rows = rows if rows == "refused" else ast.literal_eval(rows.replace("-", "None"))
        yield list(ast.literal_eval(documents)), int(size), ast.literal_eval(begin), rows


@pytest.mark.parametrize(("documents", "size", "begin", "rows"), list(rows_of_the_page()))
def test_the_table_of_begin_tokens(reader, documents, size, begin, rows):
    ids = np.concatenate(documents)
    ends = np.cumsum([len(document) for document in documents])
    how = {"order": "sequential", "begin_token": begin}

    def loader():
        data = from_array(ids, document_ends=ends)
        return BatchLoader(data, rows="documents", batch_size=1, block_size=size, **how)

    def plain_row(g):
        return reader.tokens(Listed(ids), ends.tolist(), g, size, 0, kind="documents", **how)

    if rows == "refused":
        with pytest.raises(ValueError, match="begin token"):
            loader()
        with pytest.raises(ValueError, match="begin token"):
            plain_row(0)
        return
    assert len(loader().windows()) == len(rows)
    for g, row in enumerate(rows):
        batch = loader().batch(g)
        kept = [token for token in row if token is not None]
        assert batch.tokens[0][batch.segments[0] >= 0].tolist() == kept == plain_row(g)
        assert len(row) == batch.tokens.shape[1]


def test_the_table_of_begin_tokens_has_all_cases():
    shown = {(size, begin) for _, size, begin, _ in rows_of_the_page()}
    assert shown >= {(1, None), (1, 9), (2, None), (2, 9)}
