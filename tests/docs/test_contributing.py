"""The lists, the tour and the glossary of CONTRIBUTING.md say what is so."""

import re
import sys
from pathlib import Path

import pytest

from tokenmill import kernel

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
GLOSSARY = [
    "input",
    "unit",
    "chunk",
    "part",
    "piece",
    "document",
    "word",
    "end",
    "axis",
    "shard",
    "window",
    "sample",
    "row",
    "span",
    "edit",
    "step",
    "epoch",
    "rank",
    "plan",
    "stage",
    "task",
    "receipt",
]


@pytest.mark.skipif(kernel.compiled is None, reason="the lists are of runs with the kernel")
def test_the_lists_are_those_of_a_profile():
    """`python scripts/make_traces.py` writes them; they grow when the way of the data does."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import make_traces
    finally:
        sys.path.pop(0)

    assert make_traces.with_lists(PAGE, make_traces.warm_profiles()) == PAGE


def test_the_files_of_the_tour_exist():
    tour = PAGE.partition("## The guided tour")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:src/|tests/|docs/)?[a-z_]+/[\w/.]*)`", tour)

    assert len(named) > 15
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "src" / "tokenmill" / name).exists(), name


def test_the_glossary_has_every_word_once():
    table = PAGE.partition("## Glossary")[2].partition("\n## ")[0]

    assert re.findall(r"^\| (\w+) \| (?!is \|)", table, re.MULTILINE) == GLOSSARY
