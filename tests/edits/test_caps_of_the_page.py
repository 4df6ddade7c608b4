"""The table of caps in edits.md holds for loaders, for the slow model and for the reader."""

import ast
import json
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from edits.plain_edits import HowRowsAreMade, PlainRun

from tokenmill import BatchLoader, Mixture, from_array
from tokenmill.edits import Cap, Reweight

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "reference" / "vectors.json"
WINDOWS = {"a": 9, "b": 3, "c": 5}
WEIGHTS = {"a": 2, "b": 1, "c": 1}
SEED = 42
SHOWN = 32


def on_page():
    """(edits, stages, sources) of the table."""
    text = (ROOT / "docs" / "guides" / "edits.md").read_text()
    return re.findall(r"^\| `(\[.*\])` \| `(\[.*\])` \| `([abc]+)` \|$", text, re.MULTILINE)


def table():
    """All of them, of which the page shows some."""
    for edits, stages, sources in json.loads(VECTORS.read_text())["edits"]:
        made = eval(edits, {"Cap": Cap, "Reweight": Reweight})
        yield pytest.param(made, ast.literal_eval(stages), sources, id=edits)


@pytest.mark.parametrize(("edits", "stages", "sources"), list(table()))
def test_what_is_served(edits, stages, sources):
    data = {name: from_array(np.arange(size + 1)) for name, size in WINDOWS.items()}
    loader = BatchLoader(Mixture(data, weights=WEIGHTS), batch_size=1, block_size=1, seed=SEED)
    for step, edit in edits:
        loader.edit(edit, at=step)

    served = [batch.sources[0] for batch, _ in zip(loader, range(SHOWN), strict=False)]

    assert "".join("abc"[source] for source in served) == sources


@pytest.mark.parametrize(("edits", "stages", "sources"), list(table()))
def test_the_slow_model(edits, stages, sources):
    how = HowRowsAreMade("windows", "shuffle", 1, phase=False, begin=False)
    lengths = {name: (size + 1,) for name, size in WINDOWS.items()}
    run = PlainRun(lengths, [(0, tuple(WEIGHTS.values()))], seed=SEED, how=how)

    served = run.serve(edits, SHOWN)

    assert "".join(each.source for each in served) == sources


@pytest.mark.parametrize(("edits", "stages", "sources"), list(table()))
def test_the_stages_of_the_table(edits, stages, sources):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        mixture = import_module("plain_reader").mixture
    finally:
        sys.path.remove(str(ROOT / "examples"))

    found = [mixture(g, stages, SEED)[0] for g in range(len(sources))]

    assert "".join("abc"[source] for source in found) == sources


def test_the_table_has_caps_that_are_reached_lifted_and_end():
    rows = [row.values for row in table()]
    assert len(rows) >= 10
    assert any(len(sources) < SHOWN for _, _, sources in rows)
    assert any("None" in repr(edits) and len(stages) > 2 for edits, stages, _ in rows)
    assert any("None" in repr(edits) and len(stages) == 1 for edits, stages, _ in rows)


def test_the_page_shows_some_of_them():
    known = [tuple(row) for row in json.loads(VECTORS.read_text())["edits"]]

    assert len(known) >= 12
    assert len(on_page()) >= 4
    assert set(on_page()) <= set(known)
