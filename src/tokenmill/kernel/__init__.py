"""Loops that neither NumPy nor another library has, in C: optional, and never another result.

They are compiled when tokenmill is installed, if there is a C compiler. Machines with and without
them can share a preparation: every caller has its NumPy twin next to the call, and
`TOKENMILL_NO_KERNEL=1` in the environment selects the twins everywhere.
"""

import importlib
import os
from types import ModuleType


def _load() -> ModuleType | None:
    if os.environ.get("TOKENMILL_NO_KERNEL") == "1":
        return None
    try:
        return importlib.import_module("tokenmill.kernel.loops")
    except ImportError:  # there was no compiler, or it was built for another Python
        return None


compiled = _load()
