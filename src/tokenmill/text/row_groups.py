"""The footer of a parquet file, read without loading pyarrow until one is met."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tokenmill.errors import BadInputError, MissingExtraError
from tokenmill.text import files
from tokenmill.text.sources import Source


@contextmanager
def open_parquet(source: Source) -> Iterator[Any]:
    """A pyarrow ParquetFile on the source."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading parquet", package="pyarrow", extra="parquet") from error
    with files.open_binary(source.path) as file:
        try:
            parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_parquet(source, error) from error
        with parquet:
            yield parquet


def row_group_bytes(source: Source) -> list[int]:
    """The size of each row group, uncompressed, as the footer tells it."""
    with open_parquet(source) as parquet:
        metadata = parquet.metadata
        return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]


def damaged_parquet(source: Source, error: Exception) -> BadInputError:
    """The error for a parquet file that pyarrow refuses."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInputError(
        f"{source.name} is damaged or not parquet: {reason}",
        hint="fetch or make this file again",
        source=source.name,
    )
