"""Encoded documents on their way to a shard: a part holds ids and a table of its documents.

    N.M.tokens   ids in the width of the dataset, each document followed by the end-of-text id
    N.M.rows     a row a document: how many ids, and the hash of its ids

A document longer than a part stands in several: its rows are marked OPEN (goes on in the next
row, in a later part) and CONTINUES (began in an earlier one). Only complete rows carry a hash.
"""

from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from tokenmill.preparation.workspace import Workspace, new_file
from tokenmill.text.dedup import HASH, hash_all

CONTINUES, OPEN = 1, 2
ROW = np.dtype([("length", "<u4"), ("flags", "<u4"), ("hash", HASH)])


class PartWriter:
    """Writes one part; the caller leaves the receipt."""

    def __init__(self, workspace: Workspace, name: str, dtype: np.dtype[Any], end_of_text: int):
        self.name, self.dtype, self.end_of_text = name, dtype, end_of_text
        self.num_tokens = self.num_rows = 0
        self.first_flags = self.last_flags = 0
        self._open = ExitStack()
        self._tokens, self._rows = (
            self._open.enter_context(new_file(workspace.path("units", f"{name}.{kind}")))
            for kind in ("tokens", "rows")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, ids: np.ndarray, ends: np.ndarray, flags: np.ndarray, *, hashed: bool) -> None:
        """Append texts encoded one after another; `ends` says where each ends in `ids`."""
        if not len(ends):
            return
        rows = np.zeros(len(ends), ROW)
        rows["flags"] = flags
        complete = (flags & OPEN) == 0
        rows["length"] = np.diff(ends, prepend=0) + complete
        if hashed:
            _hash_rows(rows, ids, ends, flags == 0)
        self._tokens.write(self._with_end_of_text(ids, ends[complete]).data)
        self._rows.write(rows.data)
        if not self.num_rows:
            self.first_flags = int(flags[0])
        self.last_flags = int(flags[-1])
        self.num_rows += len(rows)
        self.num_tokens += int(rows["length"].sum())

    def _with_end_of_text(self, ids: np.ndarray, ends: np.ndarray) -> np.ndarray:
        out = np.empty(len(ids) + len(ends), self.dtype)
        ours = ends + np.arange(len(ends))
        text = np.ones(len(out), np.bool_)
        text[ours] = False
        out[text] = ids
        out[ours] = self.end_of_text
        return out

    def facts(self) -> dict[str, Any]:
        """What the receipt says of this part."""
        return {
            "name": self.name,
            "tokens": self.num_tokens,
            "rows": self.num_rows,
            "continues": bool(self.first_flags & CONTINUES),
            "open": bool(self.last_flags & OPEN),
        }


def read_tokens(workspace: Workspace, part: dict[str, Any], dtype: np.dtype[Any]) -> np.ndarray:
    """The ids of a part, mapped."""
    return _map(workspace, part, "tokens", dtype)


def read_rows(workspace: Workspace, part: dict[str, Any]) -> np.ndarray:
    """The documents of a part, mapped."""
    return _map(workspace, part, "rows", ROW)


def _map(workspace: Workspace, part: dict[str, Any], kind: str, dtype: np.dtype[Any]) -> np.ndarray:
    if not part[kind]:
        return np.empty(0, dtype)
    path = workspace.path("units", f"{part['name']}.{kind}")
    return np.memmap(path, dtype, mode="r", shape=(part[kind],))


def _hash_rows(rows: np.ndarray, ids: np.ndarray, ends: np.ndarray, which: np.ndarray) -> None:
    """Hash the ids (as uint32, without end-of-text) of whole documents."""
    view = np.ascontiguousarray(ids, "<u4").data.cast("B")
    stops = (4 * ends).tolist()
    starts = [0, *stops[:-1]]
    slices = [
        view[start:stop]
        for start, stop, whole in zip(starts, stops, which.tolist(), strict=True)
        if whole
    ]
    rows["hash"][which] = hash_all(slices)
