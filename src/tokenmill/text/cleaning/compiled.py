"""The compiled work on lines, where it could be built; Python and NumPy do the same elsewhere.

`line_kernel.c` is compiled when tokenmill is installed, if there is a C compiler: cleaning a text
and hashing its lines then takes a third of the time. `tokenmill doctor` says whether it is there.
The result is the same either way, so machines with it and without it can share a preparation.
"""

import importlib
from types import ModuleType


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("tokenmill.text.cleaning.line_kernel")
    except ImportError:  # there was no compiler, or it was built for another Python
        return None


kernel = _load()
