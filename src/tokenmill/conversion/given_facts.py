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
        self._rows: list[dict[str, Any]] = []
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
            if not names:
                yield document
                continue
            rest = {name: values for name, values in document.items() if name != FACTS}
            yield rest if len(rest) > 1 else rest.get(IDS, [])
            self._rows.append({**facts, "id": self._id_of(np.asarray(rest[IDS]))})
            if len(self._rows) == _ROWS:
                self._keep()
        self._keep()

    def _id_of(self, ids: np.ndarray) -> bytes:
        own = ids[:-1] if len(ids) and ids[-1] == self._end else ids
        return xxhash.xxh3_128_digest(own.astype("<u4").tobytes())

    def _keep(self) -> None:
        if not self._rows:
            return
        import pyarrow as pa

        where = _place_from(self._num_kept)
        values = {name: [row[name] for row in self._rows] for name in (*(self._names or ()), "id")}
        arrays = {name: array_of(name, column, where) for name, column in values.items()}
        self._file.writelines(to_streams([pa.record_batch(arrays)]))
        self._num_kept += len(self._rows)
        self._rows = []

    def write(self, writer: OursWriter) -> None:
        """Write the facts, if any were given; the documents are written."""
        if not self._num_kept:
            return
        from tokenmill.shards.facts_file import common_types

        kept = common_types(
            (batch.drop_columns(["id"]), _place_from(_ROWS * number))
            for number, batch in enumerate(self._batches())
        )
        writer.write_facts(kept, self._batches())

    def _batches(self) -> Iterator[Any]:
        self._file.flush()
        return from_streams(np.memmap(self._file, np.uint8, "r"))


def _place_from(first: int) -> Any:
    return lambda row: f"document {first + row:,}"
