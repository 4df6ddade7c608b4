"""`.npy` files of numpy: a header that states dtype and shape, then the values.

What the header claims is compared with the size of the file before anything is mapped.
"""

import io
import math
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as numpy_format

from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import NUMPY as MAGIC
from tokenmill.formats.format import Ask, FileFormat, FoundData, token_dtype
from tokenmill.formats.not_tokens import dtype_hint
from tokenmill.formats.writing import Writer
from tokenmill.reading.token_file import Dtype, Lazy

HEADER_CAP = 12 + 10_000  # numpy reads no longer ones, as a literal: nothing is run
HEADER_BYTES = 128  # of those written here, always of version 1


class NpyWriter(Writer):
    """One split as one file, named for the split."""

    file_name = "{split}.npy"
    name_without_split = "tokens"
    whole_documents = False
    header_bytes = HEADER_BYTES

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (num_tokens,)}
        file.seek(0)
        numpy_format.write_array_header_1_0(file, header)


class Npy(FileFormat):
    """Arrays of numpy."""

    name = "npy"
    writer = NpyWriter
    written_suffixes = (".npy",)
    dtypes = ("uint16", "uint32", "uint8", "int32", "int64", "uint64")

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = untrusted.head(path, HEADER_CAP)
        if not first_bytes.startswith(MAGIC):
            raise FormatError(
                f"{path} starts with {first_bytes[:6]!r}, not with the header of a .npy file",
                hint="dolma, OLMo and `array.tofile` write .npy files without a header; "
                + dtype_hint(path, "dolma"),
            )
        shape, by_columns, stated, offset = _header(io.BytesIO(first_bytes), path)
        try:
            dtype = ask.agreed(token_dtype(stated), path)
        except ValueError:
            raise FormatError(
                f"{path} holds {stated.str!r}, not little-endian integers",
                hint="Python objects ('|O') are never unpickled; write token ids: "
                'np.save(path, array.astype("<u2")) if all are below 65,536',
            ) from None
        if len(shape) not in (1, 2) or min(shape) < 0 or (len(shape) == 2 and by_columns):
            raise FormatError(
                f"{path} has the shape {shape!r:.100}{' by columns' * by_columns}; tokens are a "
                "1-D array, or 2-D with rows of tokens",
                hint="write it again with np.save(path, array.reshape(-1))",
            )
        # `tokenmill pretokenize` leaves its tokenizer beside the array.
        beside = path.with_name(f"{path.stem}.tokenizer_state.json")
        state = Lazy(untrusted.read_whole, (beside,), file=str(beside))
        return self.found(
            path,
            dtype,
            size,
            math.prod(shape),
            offset,
            tokenizer_state=state if beside.is_file() else None,
            details={"shape": list(shape)},
        )


def _header(file: io.BytesIO, path: Path) -> tuple[tuple[int, ...], bool, Dtype, int]:
    """Return shape, whether it is stored by columns, dtype, and the byte of the first value."""
    try:
        version = numpy_format.read_magic(file)
        read = {
            (1, 0): numpy_format.read_array_header_1_0,
            (2, 0): numpy_format.read_array_header_2_0,
        }
        shape, by_columns, dtype = read[version](file)
    except Exception as error:  # whatever a header that was made to do harm causes
        raise untrusted.damaged(
            path, f"has a .npy header that cannot be read: {error!r:.100}"
        ) from None
    return shape, by_columns, dtype, file.tell()
