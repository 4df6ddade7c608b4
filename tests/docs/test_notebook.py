"""examples/quickstart.ipynb runs, without a network, and shows what it would show now."""

import ast
import json
import socket
import sys

import pytest
from docs_blocks import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
try:
    from run_notebook import code_cells, outputs_of
finally:
    sys.path.pop(0)

NOTEBOOK = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text(encoding="utf-8"))


def test_its_outputs_are_those_of_its_cells(monkeypatch):
    def refused(*_):
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refused)
    cells = code_cells(NOTEBOOK)
    html = [each for cell in cells for o in cell["outputs"] if (each := o.get("data"))]

    assert outputs_of(cells) == [cell["outputs"] for cell in cells], (
        "run `python scripts/run_notebook.py examples/quickstart.ipynb`"
    )
    assert sum("text/html" in each for each in html) >= 7


def test_a_cell_that_fails_is_an_error():
    with pytest.raises(ZeroDivisionError):
        outputs_of([{"source": ["x = 1\n", "x / 0"]}])


def test_it_is_a_notebook_of_version_4_5():
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]

    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len(set(ids)) == len(ids)
    for cell in code_cells(NOTEBOOK):
        ast.parse("".join(cell["source"]))
