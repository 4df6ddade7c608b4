"""The footer of a parquet file, read without loading pyarrow until one is met."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tokenmill.errors import BadInputError, MissingExtraError, PrepareError
from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.decompress import open_stream
from tokenmill.text.inputs.sources import Source

_BLOCK = 1 << 20


@contextmanager
def open_parquet(source: Source, spool_dir: str | None = None) -> Iterator[Any]:
    """A pyarrow ParquetFile on the source.

    Parquet is read from its end, which a compressed stream cannot be: it is unpacked into a file
    without a name in `spool_dir`, or else where the system keeps temporary files.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading parquet", package="pyarrow", extra="parquet") from error
    with _unpacked(source, spool_dir) as file:
        try:
            parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_parquet(source, error) from error
        with parquet:
            yield parquet


def _unpacked(source: Source, spool_dir: str | None) -> IO[bytes]:
    if source.compression is None:
        return open_input.open_binary(source.path)
    spooled = tempfile.TemporaryFile(dir=spool_dir)  # noqa: SIM115 - the caller closes it
    try:
        with open_stream(source.path, source.compression, source.name) as stream:
            while data := stream.read(_BLOCK):
                spooled.write(data)
        spooled.seek(0)
    except BaseException:
        spooled.close()
        raise
    return spooled


def row_group_bytes(source: Source) -> list[int]:
    """The size of each row group, uncompressed, as the footer tells it."""
    with open_parquet(source) as parquet:
        metadata = parquet.metadata
        return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]


def damaged_parquet(source: Source, error: Exception) -> PrepareError:
    """The error for a parquet file that pyarrow refuses, or that cannot be read."""
    if isinstance(error, OSError) and error.errno:  # of the system; pyarrow's own have no number
        return open_input.cannot_read(source.path, error)
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInputError(
        f"{source.name} is damaged or not parquet: {reason}",
        hint="fetch or make this file again",
        source=source.name,
    )
