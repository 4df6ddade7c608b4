"""`.npy` files of numpy: a header that states dtype and shape, then the values.

Bytes: 93 "NUMPY", version (major, minor), header length (u16 in version 1, u32 in 2 and 3), a
literal {'descr': '<u2', 'fortran_order': False, 'shape': (n,)}, padding to 64, then the data.

The header is parsed here, not by numpy: capped in length, read as a literal, and its claim compared
with the size of the file before anything is mapped. Arrays of objects are pickles and are refused.
A 2-D array in C order (rows of equal length) is one axis, row after row.
"""

import ast
import math
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData, token_dtype
from tokenmill.formats.registry import NUMPY as MAGIC
from tokenmill.formats.writing import RollingWriter
from tokenmill.reading.token_file import Lazy

HEADER_CAP = 10 + (1 << 16)  # those of version 1 cannot be longer
HEADER_BYTES = 128  # of those written here, always of version 1


class NpyWriter(RollingWriter):
    """One split as one file, named for the split."""

    file_name = "{split}.npy"
    name_without_split = "tokens"
    whole_documents = False
    header_bytes = HEADER_BYTES

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        text = f"{{'descr': '{self.target.dtype.str}', 'fortran_order': False, "
        text += f"'shape': ({num_tokens},), }}"
        start = MAGIC + b"\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
        file.seek(0)
        file.write(start + text.encode().ljust(HEADER_BYTES - 11) + b"\n")


class Npy(FileFormat):
    """Arrays of numpy."""

    name = "npy"
    writer = NpyWriter
    written_suffixes = (".npy",)
    dtypes = ("uint16", "uint32", "uint8", "int32", "int64", "uint64")

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = untrusted.head(path, HEADER_CAP)
        if not first_bytes.startswith(MAGIC):
            from tokenmill.formats.not_tokens import dtype_hint

            raise FormatError(
                f"{path} starts with {first_bytes[:6]!r}, not with the header of a .npy file",
                hint="dolma, OLMo and `array.tofile` write .npy files without a header; "
                + dtype_hint(path, "dolma"),
            )
        major = first_bytes[6] if size >= 12 else 0
        if major not in (1, 2, 3):
            raise FormatError(f"{path} has a .npy header of version {major}; known are 1, 2 and 3")
        start = 10 if major == 1 else 12
        offset = start + int.from_bytes(first_bytes[8:start], "little")
        untrusted.expect_at_least(path, size, offset, "its header")
        if offset > HEADER_CAP:
            raise untrusted.damaged(path, f"has a .npy header of {offset:,} bytes")
        header = _header(first_bytes[start:offset], path)
        dtype = ask.agreed(_dtype(header, path), path)
        shape = _shape(header, path)
        if len(shape) > 1 and header["fortran_order"]:
            raise FormatError(
                f"{path} is stored column by column (fortran_order): rows are no runs of tokens",
                hint="write it again with np.save(path, np.ascontiguousarray(array))",
            )
        num_tokens = math.prod(shape)
        expected = offset + num_tokens * dtype.itemsize
        untrusted.expect_size(path, size, expected, f"its shape {shape}")
        # `tokenmill pretokenize` leaves its tokenizer beside the array.
        beside = path.with_name(f"{path.stem}.tokenizer_state.json")
        state = Lazy(untrusted.read_whole, (beside,), file=str(beside))
        return self.found(
            path,
            dtype,
            num_tokens,
            size,
            offset,
            tokenizer_state=state if beside.is_file() else None,
            details={"shape": list(shape)},
        )


FORMAT = Npy()


def _header(text: bytes, path: Path) -> dict[str, Any]:
    try:
        header: dict[str, Any] = ast.literal_eval(text.decode("latin-1").strip())
        complete = set(header) == {"descr", "fortran_order", "shape"}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        complete = False
    if not complete:
        raise untrusted.damaged(path, f"has a .npy header that cannot be read: {text[:80]!r}")
    return header


def _dtype(header: dict[str, Any], path: Path) -> np.dtype[Any]:
    descr = header["descr"]
    if isinstance(descr, str) and "O" in descr:
        raise FormatError(
            f"{path} is an array of Python objects, which only unpickling can read: refused",
            hint="unpickling runs code from the file; write plain integers: "
            'np.save(path, array.astype("uint16"))',
        )
    try:
        return token_dtype(descr)
    except ValueError:
        raise FormatError(
            f"{path} holds {descr!r}, not little-endian integers",
            hint='write token ids: np.save(path, array.astype("<u2")) if all are below 65,536',
        ) from None


def _shape(header: dict[str, Any], path: Path) -> tuple[int, ...]:
    shape: tuple[int, ...] = header["shape"]
    sane = isinstance(shape, tuple) and 1 <= len(shape) <= 2
    if not sane or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
        raise FormatError(
            f"{path} has the shape {shape!r}; tokens are a 1-D array, or 2-D with rows of tokens",
            hint="write it again with np.save(path, array.reshape(-1))",
        )
    return shape
