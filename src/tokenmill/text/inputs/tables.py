"""Parquet and Arrow (IPC stream or file), opened by pyarrow as groups of rows."""

import mmap
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from tokenmill.base.human import one_line
from tokenmill.errors import MissingExtraError, PrepareError
from tokenmill.text.inputs.open_input import InputStream, Source, bad_file, cannot_read, open_binary

_BLOCK_BYTES = 1 << 20  # unpacked at a time


class ParquetTable:
    """A parquet file; its groups are row groups."""

    def __init__(self, source: Source, file: IO[bytes]) -> None:
        import pyarrow.parquet

        self._expect: Callable[[int, int], None] | None = getattr(file, "expect", None)
        self._file = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BLOCK_BYTES)
        self.schema = self._file.schema_arrow
        metadata = self._file.metadata
        self._groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        self.sizes = [group.total_byte_size for group in self._groups]  # uncompressed
        self.rows = [group.num_rows for group in self._groups]

    def read(self, start: int, stop: int, columns: list[list[str]], most: int) -> Iterator[Any]:
        """Yield columns of some groups with the group, about `most` bytes of rows at a time."""
        names = [".".join(path) for path in columns]
        if self._expect and start < stop:
            first = self._groups[start].column(0)
            last = self._groups[stop - 1].column(self._groups[stop - 1].num_columns - 1)
            self._expect(_begin_of(first), _begin_of(last) + last.total_compressed_size)
        for group in range(start, stop):
            num_rows = _rows_in(most, self.sizes[group], self.rows[group])
            batches = self._file.iter_batches(num_rows, [group], names, use_threads=False)
            yield from ((group, batch) for batch in batches)


class ArrowTable:
    """An Arrow IPC stream or file, mapped; its groups are record batches."""

    def __init__(self, source: Source, file: IO[bytes]) -> None:
        import pyarrow.ipc

        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = pyarrow.BufferReader(pyarrow.py_buffer(mapped))
        if mapped[:6] == b"ARROW1":
            reader = pyarrow.ipc.open_file(data)
            self._batch = reader.get_batch  # which may be compressed
            num_batches = reader.num_record_batches
        else:
            reader = pyarrow.ipc.open_stream(data)
            batches = list(reader)  # only their headers are read
            self._batch = batches.__getitem__
            num_batches = len(batches)
        self.schema = reader.schema
        self.rows = [self._batch(group).num_rows for group in range(num_batches)]
        self.sizes = [source.size // num_batches] * num_batches if num_batches else []

    def read(self, start: int, stop: int, columns: list[list[str]], most: int) -> Iterator[Any]:
        """Yield columns of some groups with the group, about `most` bytes of rows at a time."""
        for group in range(start, stop):
            batch = self._batch(group).select(sorted({path[0] for path in columns}))
            num_rows = _rows_in(most, batch.nbytes, batch.num_rows)
            for at in range(0, batch.num_rows, num_rows):
                yield group, batch.slice(at, num_rows)


def _begin_of(column: Any) -> int:
    """Return where the pages of a column begin; a dictionary comes first."""
    return int(column.dictionary_page_offset or column.data_page_offset)


def _rows_in(most: int, size: int, num_rows: int) -> int:
    return max(1, min(1 << 16, most // max(1, size // max(1, num_rows))))


def pyarrow_for(what: str) -> Any:
    """Return the package, or raise the error that says how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(what, package="pyarrow", extra="parquet") from error
    return pyarrow


@contextmanager
def open_table(source: Source, spool_dir: str | None = None) -> Iterator[Any]:
    """Open the source as a ParquetTable or an ArrowTable.

    Parquet is read from its end, which a compressed stream cannot be, and Arrow is mapped. So what
    is packed, or far away, is brought to a file without a name in `spool_dir`, or else where the
    system keeps temporary files.
    """
    pyarrow = pyarrow_for(f"reading {source.kind}")
    with ExitStack() as stack:
        file: IO[bytes]
        if source.has_groups:
            file = stack.enter_context(open_binary(source.path))
        else:
            file = stack.enter_context(tempfile.TemporaryFile(dir=spool_dir))
            with InputStream(source.path, source.compression, source.name) as stream:
                while data := stream.read(_BLOCK_BYTES):
                    file.write(data)
            file.seek(0)
        kind = ArrowTable if source.kind == "arrow" else ParquetTable
        try:
            table = kind(source, file)
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_table(source, error) from error
        yield table


def damaged_table(source: Source, error: Exception) -> PrepareError:
    """Return the error for a file that pyarrow refuses, or that cannot be read."""
    if isinstance(error, OSError) and error.errno:  # of the system; pyarrow's own have no number
        return cannot_read(source.path, error)
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return bad_file(source.name, f"is damaged or not {source.kind}: {one_line(reason)}")
