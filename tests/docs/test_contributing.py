"""The traces, the tour and the glossary of CONTRIBUTING.md name what exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
TRACES = {
    title: re.findall(r"^\d+\. `([\w/.]+)` `([\w.]+)`: \S", body, re.MULTILINE)
    for title, body in re.findall(r"^## (From .*?)\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
}
GLOSSARY = [
    "input",
    "unit",
    "chunk",
    "piece",
    "document",
    "word",
    "end",
    "axis",
    "shard",
    "window",
    "sample",
    "row",
    "edit",
    "place",
    "step",
    "epoch",
    "rank",
    "plan",
    "stage",
    "task",
    "receipt",
]


def names_in(path):
    """The functions and classes of a module, methods as `Class.method`."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            members = node.body if isinstance(node, ast.ClassDef) else []
            yield from (f"{node.name}.{m.name}" for m in members if isinstance(m, ast.FunctionDef))


@pytest.mark.parametrize(
    ("title", "stops"),
    [
        ("From a line of a .jsonl file to its byte in a shard", 12),
        ("From a byte of a shard to `batch.inputs`", 10),
    ],
)
def test_the_stops_of_a_trace_exist(title, stops):
    trace = TRACES[title]

    assert 5 <= len(trace) <= stops
    for file, name in trace:
        assert name in names_in(ROOT / "src" / "tokenmill" / file), f"{file} has no {name}"


def test_the_files_of_the_tour_exist():
    tour = PAGE.partition("## The guided tour")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:src/|tests/|docs/)?[a-z_]+/[\w/.]*)`", tour)

    assert len(named) > 15
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "src" / "tokenmill" / name).exists(), name


def test_the_glossary_has_every_word_once():
    table = PAGE.partition("## Glossary")[2].partition("\n## ")[0]

    assert re.findall(r"^\| (\w+) \| (?!is \|)", table, re.MULTILINE) == GLOSSARY
