"""Run the cells of a notebook and keep what they show in it, without Jupyter.

    python scripts/run_notebook.py examples/quickstart.ipynb

The value of the last line of a cell is shown by its `_repr_html_`, else by its `repr`; printed
lines come before it. A test runs the notebook again and compares.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def outputs_of(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Run the code cells in order, in a folder that is removed; return the outputs of each."""
    before = Path.cwd()
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return [run("".join(each["source"]), names, n) for n, each in enumerate(cells, 1)]
        finally:
            os.chdir(before)


def run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell; return its outputs as notebooks keep them."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = last and eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
    if value is not None:
        is_html = hasattr(value, "_repr_html_")
        data = {"text/html": value._repr_html_()} if is_html else {"text/plain": repr(value)}
        kind = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append({"data": data, **kind})
    return outputs


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def main(path: Path) -> None:
    """Run the notebook and write it with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    for number, (cell, outputs) in enumerate(zip(cells, outputs_of(cells), strict=True), 1):
        cell.update(outputs=outputs, execution_count=number)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
