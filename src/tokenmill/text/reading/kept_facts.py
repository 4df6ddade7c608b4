"""Facts of documents while they are on the way: where each one is, and the fields that are kept.

They are Arrow record batches, each with types of its own: what is seen here decides nothing, since
other units may hold other types; shards/facts_file.py finds one type.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tokenmill.base.arrow import OWN_NAMES, array_of, from_streams, to_streams
from tokenmill.errors import BadInputError, PrepareError

ORIGIN = ("source", "row")


class KeptFacts:
    """Facts of some documents, in order: record batches with a row for each document.

    `source` is the file, as a number; `row` is its row from 1, or for text files the byte at which
    it begins. The other columns are the fields that are kept.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = tuple(batches)

    @classmethod
    def at(cls, places: Sequence[int] | np.ndarray, values: Any = None) -> "KeptFacts":
        """Return the facts of documents at these rows or bytes of one file."""
        import pyarrow as pa

        arrays = [pa.array(np.zeros(len(places), np.uint32)), pa.array(places, pa.int64())]
        if values is None:
            return cls([pa.record_batch(arrays, ORIGIN)])
        return cls([pa.record_batch([*arrays, *values], [*ORIGIN, *values.schema.names])])

    def of_source(self, number: int) -> "KeptFacts":
        """Return the same facts of documents of another file: `number` is added to theirs."""
        import pyarrow as pa

        moved = [pa.array(batch["source"].to_numpy() + np.uint32(number)) for batch in self.batches]
        pairs = zip(self.batches, moved, strict=True)
        return KeptFacts(batch.set_column(0, "source", sources) for batch, sources in pairs)

    def chosen(self, is_chosen: np.ndarray | list[bool]) -> "KeptFacts":
        """Return the facts of those documents for which the mask is True."""
        import pyarrow as pa

        edges = np.cumsum([len(batch) for batch in self.batches])[:-1]
        masks = map(pa.array, np.split(np.array(is_chosen, bool), edges))
        return KeptFacts(b.filter(m) for b, m in zip(self.batches, masks, strict=True))

    def with_values(self, columns: Mapping[str, Sequence[Any]], whose: str) -> "KeptFacts":
        """Return the same facts, and columns of new ones that the rule `whose` found out."""
        import pyarrow as pa

        known = {name for batch in self.batches for name in batch.schema.names}
        for name in columns:
            if name in known or name in OWN_NAMES:
                raise PrepareError(f"{whose}: there is a fact {name!r} already; name it otherwise")
        arrays = {
            name: array_of(name, values, lambda row: f"{whose}, document {row}")
            for name, values in columns.items()
        }
        batches, start = [], 0
        for batch in self.batches:
            new = [array.slice(start, len(batch)) for array in arrays.values()]
            names = [*batch.schema.names, *arrays]
            batches.append(pa.record_batch([*batch.columns, *new], names))
            start += len(batch)
        return KeptFacts(batches)

    def to_bytes(self) -> bytes:
        """Return all, for `from_bytes`; never empty."""
        return b"".join(to_streams(self.batches))

    @classmethod
    def from_bytes(cls, data: Any) -> "KeptFacts":
        return cls(from_streams(data))

    def __add__(self, other: "KeptFacts") -> "KeptFacts":
        return KeptFacts(self.batches + other.batches)


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
