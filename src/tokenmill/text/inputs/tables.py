"""Parquet and Arrow files, opened by pyarrow as groups of rows: row groups, or record batches.

Arrow files are those of `datasets.save_to_disk` and of the IPC formats, stream and file.
"""

import mmap
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from tokenmill.base.human import one_line
from tokenmill.errors import MissingExtraError, PrepareError
from tokenmill.text.inputs.open_input import InputStream, Source, bad_file, cannot_read, open_binary

Paths = list[list[str]]
"""Columns, each as the names that lead to it through structs."""
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

    def read(self, start: int, stop: int, paths: Paths, most: int) -> Iterator[tuple[int, Any]]:
        """Yield columns of some groups with the group, about `most` bytes of rows at a time."""
        columns = [".".join(path) for path in paths]
        if self._expect is not None:
            _read_ahead(self._groups[start:stop], columns, self._expect)
        for group in range(start, stop):
            num_rows = _rows_in(most, self.sizes[group], self.rows[group])
            batches = self._file.iter_batches(num_rows, [group], columns, use_threads=False)
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

    def read(self, start: int, stop: int, paths: Paths, most: int) -> Iterator[tuple[int, Any]]:
        """Yield columns of some groups with the group, about `most` bytes of rows at a time."""
        for group in range(start, stop):
            batch = self._batch(group).select(sorted({path[0] for path in paths}))
            num_rows = _rows_in(most, batch.nbytes, batch.num_rows)
            for at in range(0, batch.num_rows, num_rows):
                yield group, batch.slice(at, num_rows)


def _read_ahead(groups: list[Any], names: list[str], expect: Callable[[int, int], None]) -> None:
    """Announce the bytes from the first column to the last one, if most of them will be read."""
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    chosen = [chunk for chunk in chunks if chunk.path_in_schema in names]
    starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chosen]
    sizes = [chunk.total_compressed_size for chunk in chosen]
    if chosen and 2 * sum(sizes) > (stop := starts[-1] + sizes[-1]) - starts[0]:
        expect(starts[0], stop)


def _rows_in(most: int, size: int, num_rows: int) -> int:
    return max(1, min(1 << 16, most // max(1, size // max(1, num_rows))))


@contextmanager
def open_table(source: Source, spool_dir: str | None = None) -> Iterator[Any]:
    """Open the source as a ParquetTable or an ArrowTable.

    Parquet is read from its end, which a compressed stream cannot be, and Arrow is mapped. So what
    is packed, or far away, is brought to a file without a name in `spool_dir`, or else where the
    system keeps temporary files.
    """
    try:
        import pyarrow
    except ImportError as error:
        reading = f"reading {source.kind}"
        raise MissingExtraError(reading, package="pyarrow", extra="parquet") from error
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
