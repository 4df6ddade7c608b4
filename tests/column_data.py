"""Datasets with columns, and what they must hold: plain arrays, made without a line of ours."""

import shutil

import numpy as np

import tokenmill
from tokenmill.conversion.convert import convert

END = 256  # of the tokenizer of bytes


def make_documents(seed=0, count=40, longest=90):
    """Documents of ids with a column of each kind."""
    random = np.random.default_rng(seed)
    documents = []
    for size in random.integers(1, longest, count).tolist():
        documents.append(
            {
                "ids": random.integers(0, END, size),
                "loss": random.random(size) < 0.5,
                "weights": random.integers(0, 50_000, size) / 4096,
                "flag": random.random(size) < 0.3,
                "kind": random.integers(0, 256, size).astype(np.uint8),
                "likely": random.integers(0, 1 << 16, (size, 3)).astype(np.uint16),
            }
        )
    return documents


def axis_of(documents):
    """Every column as one array: after each document its last value, next to the end-of-text id."""
    columns = {}
    for name in documents[0]:
        parts = []
        for document in documents:
            last = [END] if name == "ids" else document[name][-1:]
            parts += [document[name], last]
        columns[name] = np.concatenate(parts)
    return columns


def write(folder, documents, names=None, *, tokens_per_shard=333, compress=None):
    """Write some of the columns, all by default, and open the dataset."""
    chosen = [{k: v for k, v in d.items() if names is None or k in names} for d in documents]
    whole = f"{folder}-whole"
    tokenmill.write_tokens(chosen, whole, tokenizer="bytes")
    convert(whole, folder, to="tokenmill", tokens_per_shard=tokens_per_shard, compress=compress)
    shutil.rmtree(whole)
    return tokenmill.open(folder)


def expected_rows(columns, spans, shape, name):
    """Copy spans token by token; what no span fills is 0."""
    values = columns[name]
    out = np.zeros((*shape, *values.shape[1:]), values.dtype)
    tables = (spans.row, spans.column, spans.start, spans.length)
    for row, column, start, length in zip(*(t.tolist() for t in tables), strict=True):
        out[row, column : column + length] = values[start : start + length]
    return out
