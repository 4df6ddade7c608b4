"""Facts of documents while they are on the way: where each one is, and the fields that are kept.

Origins are a NumPy table. Values are Arrow record batches, each with types of its own: what is seen
here decides nothing, since other units may hold other types; shards/facts_file.py finds one type.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.base.arrow import OWN_NAMES, array_of, from_streams, to_stream
from tokenmill.errors import BadInputError

ORIGIN = np.dtype([("source", "<u4"), ("place", "<i8")])
"""The file, as a number; and the row from 1, or for text files the byte at which it begins."""


@dataclass(frozen=True)
class KeptFacts:
    """Facts of some documents, in order."""

    origins: np.ndarray
    """(documents,) of ORIGIN."""
    values: tuple[Any, ...] = ()
    """Record batches, with a row for each document; none if no fields are kept."""

    @classmethod
    def at(cls, places: Iterable[int] | np.ndarray, values: tuple[Any, ...] = ()) -> "KeptFacts":
        """Return the facts of documents at these rows or bytes of one file."""
        numbers = np.fromiter(places, np.int64)
        origins = np.zeros(len(numbers), ORIGIN)
        origins["place"] = numbers
        return cls(origins, values)

    def of_source(self, number: int) -> "KeptFacts":
        """Return the same facts of documents of another file."""
        self.origins["source"] = number
        return self

    def chosen(self, is_chosen: np.ndarray | list[bool]) -> "KeptFacts":
        """Return the facts of those documents for which the mask is True."""
        which = np.asarray(is_chosen, bool)
        if which.all():
            return self
        values, start = [], 0
        for batch in self.values:
            values.append(batch.filter(_as_arrow(which[start : start + len(batch)])))
            start += len(batch)
        return KeptFacts(self.origins[which], tuple(values))

    def to_bytes(self) -> bytes:
        """Return all, for `from_bytes`; never empty."""
        size = len(self.origins).to_bytes(8, "little")
        return b"".join([size, self.origins.tobytes(), *self.streams()])

    def streams(self) -> Iterator[bytes]:
        """Yield the values as Arrow IPC streams."""
        return map(to_stream, self.values)

    @classmethod
    def from_bytes(cls, data: bytes) -> "KeptFacts":
        size = int.from_bytes(data[:8], "little")
        origins = np.frombuffer(data, ORIGIN, size, 8)
        return cls(origins.copy(), tuple(from_streams(data[8 + origins.nbytes :])))

    def __add__(self, other: "KeptFacts") -> "KeptFacts":
        origins = np.concatenate([self.origins, other.origins])
        return KeptFacts(origins, self.values + other.values)


def _as_arrow(mask: np.ndarray) -> Any:
    import pyarrow

    return pyarrow.array(mask)


class KeptFields:
    """The fields that `keep` names: `url,score,doc=meta.id`."""

    def __init__(self, keep: str) -> None:
        pairs = [word.strip().partition("=") for word in keep.split(",")]
        self.paths = {name: path or name for name, _, path in pairs}
        """Name of each column, and the field it is from."""
        for name, path in self.paths.items():
            if not name or not path or len(self.paths) < len(pairs):
                raise ValueError(f"keep is {keep!r}; write it like url,score or url,doc=meta.id")
            if name in OWN_NAMES:
                raise ValueError(
                    f"keep: the name {name!r} is taken, by the facts that every document has; keep "
                    f"it under another: keep='doc_{name}={path}'"
                )

    def of_rows(self, rows: Sequence[Any], name_of: Any) -> Any:
        """Return the values in rows of JSON or CSV; `name_of` says where row i is, for errors."""
        import pyarrow as pa

        columns = {name: [_find(row, path) for row in rows] for name, path in self.paths.items()}
        arrays = [array_of(name, values, name_of) for name, values in columns.items()]
        return pa.record_batch(arrays, list(columns))

    def of_table(self, batch: Any, pick: Any) -> Any:
        """Return the values in a batch of a table; `pick(batch, path)` gives a column of it."""
        import pyarrow as pa

        arrays = []
        for name, path in self.paths.items():
            array = pick(batch, path)
            kind = array.type
            if pa.types.is_nested(kind):
                what = f"keep={name}: the column {path!r} holds {kind}; facts are plain values"
                raise BadInputError(what, hint="name a field inside it, such as keep=doc=meta.id")
            if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
                array = array.cast(pa.string())
            arrays.append(array)
        return pa.record_batch(arrays, list(self.paths))


def _find(row: Any, path: str) -> Any:
    """Return a field by its name, or by a dotted path; None where it is missing."""
    if isinstance(row, dict) and path in row:
        return row[path]
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row
