"""Write `documents.parquet`: the facts of the documents of a split, row i for document i.

DuckDB, polars and pandas read it as it is. Its bytes are a function of the rows and of the version
of pyarrow, which Parquet files name: groups of rows have a fixed size, whatever is given at a time.
An id costs its 16 bytes, where a document comes from about 2 more.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tokenmill.base.arrow import other_type, unified
from tokenmill.errors import BadInputError
from tokenmill.shards.manifest import FactsEntry
from tokenmill.shards.writer import NewFile

ROWS_PER_GROUP = 1 << 17
NAME = "documents.parquet"


def columns_of_all() -> dict[str, Any]:
    """The columns of all facts: the input file, the row in it or the byte, and an id."""
    import pyarrow as pa

    return {"source": pa.string(), "row": pa.int64(), "byte": pa.int64(), "id": pa.binary(16)}


class _HashedFile(io.RawIOBase):
    """A new file as pyarrow writes one."""

    def __init__(self, file: NewFile) -> None:
        self._new = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._new.num_bytes

    def write(self, data: Any) -> int:
        self._new.write(memoryview(data))
        return len(data)


class FactsFileWriter(ExitStack):
    """One new file of facts; an error before `finish` leaves none. `kept` are names and types."""

    def __init__(self, folder: Path, file: str, kept: Mapping[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        super().__init__()
        self._file = file
        self._new = self.enter_context(NewFile(folder, file, durable=True, level=None))
        self.schema = pa.schema({**columns_of_all(), **kept})
        texts = [name for name, kind in kept.items() if kind in (pa.string(), pa.binary())]
        others = [name for name in self.schema.names if name != "id"]
        self._writer = parquet.ParquetWriter(
            _HashedFile(self._new),
            self.schema,
            version="2.6",
            data_page_version="1.0",
            use_dictionary=["source", *texts],
            column_encoding={"row": "DELTA_BINARY_PACKED", "byte": "DELTA_BINARY_PACKED"},
            compression={**dict.fromkeys(others, "zstd"), "id": "none"},
            compression_level=dict.fromkeys(others, 3),
            write_statistics=others,
            store_schema=False,
        )
        self._waiting = self.schema.empty_table()
        self.num_documents = 0

    def add(self, rows: Any) -> None:
        """Add a table or record batch; its types become those of the file.

        Documents that come from no file have no source, row or byte.
        """
        import pyarrow as pa

        nothing = pa.nulls(len(rows["id"]))
        has = rows if isinstance(rows, dict) else rows.schema.names
        arrays = [rows[name] if name in has else nothing for name in self.schema.names]
        table = pa.table(arrays, names=self.schema.names)
        try:
            table = table.cast(self.schema)
        except pa.ArrowInvalid as error:
            raise BadInputError(
                f"{self._file}: a value does not fit into the type that its column has: {error}",
                hint="give its field one type in all inputs",
            ) from error
        self._waiting = pa.concat_tables([self._waiting, table])
        while len(self._waiting) >= ROWS_PER_GROUP:
            self._write(self._waiting[:ROWS_PER_GROUP])
            self._waiting = self._waiting[ROWS_PER_GROUP:]

    def _write(self, group: Any) -> None:
        self._writer.write_table(group.combine_chunks(), row_group_size=ROWS_PER_GROUP)
        self.num_documents += len(group)

    def finish(self) -> FactsEntry:
        """Write the rest, name the file, and read it back; its entry for the manifest."""
        if len(self._waiting):
            self._write(self._waiting)
        self._writer.close()
        num_bytes, digest, _ = self._new.finish()
        return FactsEntry(self._file, self.num_documents, num_bytes, digest)


def common_types(
    batches: Iterable[tuple[Any, Callable[[int], str]]],
) -> dict[str, Any]:
    """Return the type that holds the values of all batches, by column.

    Each batch comes with a function that says where its row i is, for errors.
    """
    import pyarrow as pa

    types: dict[str, Any] = {}
    for batch, where in batches:
        for field in batch.schema:
            found = unified(types.get(field.name, pa.null()), field.type)
            if found is None:
                column = batch[field.name]
                row = next(i for i, value in enumerate(column) if value.is_valid)
                value = column[row].as_py()
                raise other_type(where(row), field.name, value, types[field.name])
            types[field.name] = found
    empty = [name for name, kind in types.items() if kind == pa.null()]
    if empty:
        raise BadInputError(
            f"no document has a value of {empty[0]!r}",
            hint="is the name spelled as in the input? a field inside another is NAME.FIELD",
        )
    return types
