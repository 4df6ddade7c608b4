"""Loops that neither NumPy nor another library has, in C: optional, and never another result.

    lines.c      texts are cleaned, and their lines hashed
    xxh3.h       the hash
    ids.c        ids as they are written to a file
    gather.c     spans of tokens copied out of mapped files into rows, and widened
    documents.c  where documents are in a batch
    augment.c    inputs masked or replaced, tokens dropped, documents rearranged
    permute.c    keyed permutations
    rows.c       pieces of documents in rows
    loops.c      the module of these functions, with its header loops.h

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
