"""Facts of documents, read from the Parquet file of each split: row i is about document i.

Read group by group of rows, so that memory does not grow with the documents. What a row says is
looked up in the group that holds it. Needs pyarrow, imported when facts are asked for.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tokenmill.base.arrow import OWN_NAMES
from tokenmill.base.suggest import one_of
from tokenmill.errors import CorruptShardError, FormatError, MissingExtraError
from tokenmill.reading.token_file import Lazy

ROWS_AT_ONCE = 1 << 17
DOCUMENT = "document"
"""A column that is in no file: the number of the document."""


class FactsFile(NamedTuple):
    """The facts of one split."""

    split: str
    num_documents: int
    xxh3_128: str
    open: Lazy
    """Opens the file."""


class Facts:
    """The facts of all documents of some splits, in order."""

    def __init__(self, files: Sequence[FactsFile]) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            what = "reading facts of documents, which are Parquet,"
            raise MissingExtraError(what, package="pyarrow", extra="parquet") from error
        self.files = tuple(files)
        self.num_documents = sum(file.num_documents for file in files)

    @functools.cached_property
    def schema(self) -> Any:
        """Names and types of the columns; those of several splits are made one."""
        import pyarrow as pa

        schemas = []
        for file in self.files:
            with _opened(file) as parquet:
                schemas.append(parquet.schema_arrow.remove_metadata())
        return pa.unify_schemas(schemas, promote_options="permissive")

    @property
    def identity(self) -> list[str]:
        """What changes when they do."""
        return [file.xxh3_128 for file in self.files]

    @property
    def kept_types(self) -> dict[str, Any]:
        """The types of those columns that not all facts have, by name."""
        return {field.name: field.type for field in self.schema if field.name not in OWN_NAMES}

    def check(self, names: Sequence[str]) -> None:
        """Refuse the name of a column that there is not."""
        for name in names:
            one_of("column", name, [DOCUMENT, *self.schema.names])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of all documents, some at a time; texts are dictionaries where stored so.

        Without `columns`, all of the file.
        """
        import pyarrow as pa

        names = self.schema.names if columns is None else list(columns)
        for file in self.files:
            texts = [n for n in names if self.schema.field(n).type == pa.string()]
            num_rows = 0
            with _opened(file, texts) as parquet:
                for batch in parquet.iter_batches(ROWS_AT_ONCE, columns=names):
                    num_rows += len(batch)
                    yield batch
            if num_rows != file.num_documents:
                raise CorruptShardError(
                    f"{file.open.file} has {num_rows:,} rows, and its split {file.num_documents:,} "
                    "documents",
                    hint="fetch this file again, or prepare the dataset again",
                )

    def table(
        self, columns: Sequence[str] | None, chosen: np.ndarray | None, documents: np.ndarray
    ) -> Any:
        """Return some rows as a table: those that the mask `chosen` has, or all.

        `documents` are their numbers, for the column `document`.
        """
        import pyarrow as pa

        wanted = [DOCUMENT, *self.schema.names] if columns is None else list(columns)
        self.check(wanted)
        stored = [name for name in wanted if name != DOCUMENT]
        schema = pa.schema([self.schema.field(name) for name in stored])
        parts = [schema.empty_table()]
        start = 0
        for batch in self.batches(stored) if stored else ():
            mask = None if chosen is None else pa.array(chosen[start : start + len(batch)])
            start += len(batch)
            parts.append(pa.table(batch if mask is None else batch.filter(mask)).cast(schema))
        table = pa.concat_tables(parts)
        columns_of = {name: table[name] for name in stored} | {DOCUMENT: pa.array(documents)}
        return pa.table({name: columns_of[name] for name in wanted})

    def row(self, document: int) -> dict[str, Any]:
        """Return the facts of one document; those without a value are left out."""
        for file in self.files:
            if document < file.num_documents:
                break
            document -= file.num_documents
        with _opened(file) as parquet:
            for group in range(parquet.metadata.num_row_groups):
                count = parquet.metadata.row_group(group).num_rows
                if document < count:
                    (row,) = parquet.read_row_group(group).slice(document, 1).to_pylist()
                    return {name: _plain(value) for name, value in row.items() if value is not None}
                document -= count
        raise CorruptShardError(f"{file.open.file} has too few rows", hint="fetch this file again")


@contextmanager
def _opened(file: FactsFile, texts: Sequence[str] = ()) -> Iterator[Any]:
    """Open the file, and say what is wrong with it where it is not Parquet, or damaged."""
    import pyarrow as pa
    from pyarrow import parquet

    with file.open() as opened:
        try:
            yield parquet.ParquetFile(opened, read_dictionary=texts)
        except (pa.ArrowException, OSError) as error:
            raise CorruptShardError(
                f"{file.open.file} cannot be read: {error}",
                hint="it is damaged; `tokenmill verify --full` says more; fetch this file again",
            ) from error


def _plain(value: Any) -> Any:
    """Return a value as one that JSON has; bytes, such as those of an id, as hex."""
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float) else str(value)


def no_facts(path: object, why: str = "keeps no facts of its documents") -> FormatError:
    """Return the error for data that has none."""
    return FormatError(
        f"{path} {why}",
        hint="prepare its text again with --facts, or with --keep and the fields to keep",
    )
