"""The kernel links on systems that it is only cross-compiled for."""

import ast
import shutil
import subprocess

import pytest
from distribution.try_wheel import ROOT

from tokenmill import kernel

SCRIPT = ast.parse((ROOT / "scripts" / "build_kernels.py").read_text())


def names_for_windows():
    """Functions and data that the linker is told of."""
    for node in SCRIPT.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("FUNCTIONS", "DATA"):
            yield from ast.literal_eval(node.value).split()


@pytest.mark.skipif(kernel.compiled is None, reason="there is no kernel")
@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_the_linker_for_windows_is_told_of_every_name_of_python():
    """`make kernels` fails without one of them; what Linux's kernel asks for is compared."""
    asked = subprocess.run(
        ["nm", "-D", "--undefined-only", kernel.compiled.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    used = {line.split()[-1] for line in asked.stdout.splitlines()}
    of_python = {name for name in used if name.lstrip("_").startswith("Py")}

    assert len(of_python) > 20
    assert of_python - set(names_for_windows()) == set()
