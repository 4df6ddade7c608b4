"""Raw files written by hand, and all ids of a split of them."""

from pathlib import Path

import numpy as np

import tokenmill


def raw(folder: Path, **files: list[int]) -> Path:
    """Raw uint16 files; `__` in a name is for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, ids in files.items():
        np.array(ids, "<u2").tofile(folder / name.replace("__", "."))
    return folder


def ids_of(where, split, **options):
    data = tokenmill.open(where, split, dtype="uint16", **options)
    return data.tokens(0, data.num_tokens).tolist()
