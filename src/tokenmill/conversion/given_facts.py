"""Facts given with the documents of `write_tokens`, kept until the types of all are known."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.arrow import OWN_NAMES, array_of, from_streams, to_streams
from tokenmill.errors import BadInputError
from tokenmill.formats.ours_writer import OursWriter

FACTS = "facts"
IDS = "ids"
_ROWS = 1 << 14  # that are put into the file at a time


class GivenFacts:
    """The facts of documents, with their ids by content, in a file without a name."""

    def __init__(self, task: ExitStack, end_of_text_id: int) -> None:
        self._file = task.enter_context(TemporaryFile())  # noqa: SIM115
        self._end = end_of_text_id
        self._names: list[str] | None = None
        self._rows: list[Mapping[str, Any]] = []
        self._ids: list[bytes] = []
        self._num_kept = 0

    def taken_from(self, documents: Iterable[Any]) -> Iterator[Any]:
        """Yield the same documents without their facts."""
        for number, document in enumerate(documents):
            facts = document.get(FACTS, {}) if isinstance(document, Mapping) else {}
            names = sorted(map(str, facts)) if isinstance(facts, Mapping) else [FACTS]
            self._names = names if self._names is None else self._names
            if names != self._names or {*names} & {*OWN_NAMES, FACTS}:
                raise BadInputError(
                    f"document {number:,} has the facts {', '.join(names) or 'none'}, and the "
                    f"first one {', '.join(self._names) or 'none'}",
                    hint='write "facts": {"url": "...", "score": 0.5}, with the same names for '
                    f"every document, and none of {', '.join(OWN_NAMES)}",
                )
            if names:
                rest = {name: values for name, values in document.items() if name != FACTS}
                document = rest if len(rest) > 1 else rest.get(IDS, [])
                yield document
                self._take(np.asarray(rest[IDS]), facts)
            else:
                yield document
        self._keep()

    def _take(self, ids: np.ndarray, facts: Mapping[str, Any]) -> None:
        own = ids[:-1] if len(ids) and ids[-1] == self._end else ids
        self._ids.append(xxhash.xxh3_128_digest(own.astype("<u4").tobytes()))
        self._rows.append(facts)
        if len(self._rows) == _ROWS:
            self._keep()

    def _keep(self) -> None:
        if not self._rows:
            return
        import pyarrow as pa

        first = self._num_kept
        arrays = [
            array_of(name, [row[name] for row in self._rows], lambda i: f"document {first + i:,}")
            for name in self._names or ()
        ]
        arrays.append(pa.array(self._ids, pa.binary(16)))
        batch = pa.record_batch(arrays, [*(self._names or ()), "id"])
        self._file.writelines(to_streams([batch]))
        self._num_kept += len(self._rows)
        self._rows, self._ids = [], []

    def write(self, writer: OursWriter) -> None:
        """Write the facts, if any were given; the documents are written."""
        if not self._num_kept:
            return
        from tokenmill.shards.facts_file import common_types

        firsts = iter(range(0, self._num_kept, _ROWS))
        located = ((b.drop_columns(["id"]), _places(next(firsts))) for b in self._batches())
        kept = common_types(located)
        writer.write_facts(kept, map(_with_origin, self._batches()))

    def _batches(self) -> Iterator[Any]:
        self._file.flush()
        return from_streams(np.memmap(self._file, np.uint8, "r"))


def _places(first: int) -> Any:
    return lambda row: f"document {first + row:,}"


def _with_origin(batch: Any) -> dict[str, Any]:
    """Add the columns of documents that come from no file."""
    import pyarrow as pa

    nothing = {name: pa.nulls(len(batch)) for name in ("source", "row", "byte")}
    return {**nothing, **{name: batch[name] for name in batch.schema.names}}
