"""MDS, the format of MosaicML Streaming: `index.json` and shards of samples with several columns.

A shard: u32 number of samples n; u32[n + 1] where each begins, and the last ends, in bytes; a JSON
copy of its entry in the index; the samples. A sample: u32 size of each column that has no fixed
one, then the columns one after another. A column of tokens is `ndarray:int32` (a byte
`ndim << 2 | code`, the shape in integers of 2^code bytes, the values), `ndarray:int32:2048` (values
only), or `bytes` (values only, and the dtype is asked for).

Headers lie between the tokens, so these shards are read piece by piece and never mapped as one run.
With a fixed shape the index alone tells how many tokens there are; else opening reads the table of
each shard. Columns of type `pkl` are pickles: never read. Compressed shards are refused.
"""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.strict_json import Reader
from tokenmill.errors import CorruptShardError, FormatError, UnsupportedVersionError
from tokenmill.formats.engine import samples, untrusted
from tokenmill.formats.engine.found import INTEGERS, Ask, Found
from tokenmill.formats.engine.held_out import take
from tokenmill.tokenfiles.token_file import Lazy, TokenFile

NAME = "mds"
INDEX = "index.json"
USUAL_NAMES = ("tokens", "input_ids")
DTYPE_CODES = {8: "u1", 9: "i1", 16: "u2", 17: "i2", 32: "u4", 33: "i4", 64: "u8", 65: "i8"}


@dataclass(frozen=True)
class Column:
    """Where the tokens are in a sample, and how they are written."""

    dtype: np.dtype[Any] | None
    """None: a byte in each sample says it."""
    has_shape: bool
    """Whether each sample begins with its shape."""
    number: int
    sizes: tuple[int | None, ...]
    """Bytes of each column of a sample; None: a u32 in the sample says it."""


def claims_folder(folder: Path) -> bool:
    """Whether this folder is such a dataset."""
    path = folder / INDEX
    return path.is_file() and "shards" in untrusted.read_json(path).names()


def read_folder(folder: Path, split: str | None, ask: Ask) -> Found:
    """The shards of a split, by the index."""
    path = folder / INDEX
    index = untrusted.read_json(path)
    if index.count("version") != 2:
        raise UnsupportedVersionError(f"{path} is of version {index.count('version')}; known is 2")
    entries = index.objects("shards")
    if not entries:
        raise FormatError(f"{path} names no shards", hint="nothing was written; write it again")
    column = _column(entries[0], path, ask)
    root = untrusted.Root(folder, path)
    first = _table(_shard_path(root, entries[0]), entries[0].count("samples"), column)
    dtype = column.dtype or ask.agreed(np.dtype(DTYPE_CODES[first.dtype_code]), path)
    documents = samples.are_documents(index, np.diff(first.starts))
    shards = []
    for number, entry in enumerate(entries):
        if _column(entry, path, ask) != column:
            raise FormatError(
                f"{path} has other columns in shard {number} than in shard 0",
                hint="these are two datasets; open the shards of each in a folder of its own",
            )
        shards.append(_shard(root, entry, column, dtype, documents, first.dtype_code))
    found = Found(
        NAME,
        tuple(shards),
        details={"column": entries[0].fields["column_names"][column.number], "rows": not documents},
    )
    return found.with_files(take(found.files, split, folder))


def _column(entry: Reader, path: Path, ask: Ask) -> Column:
    """The column of tokens: the one of that name, or the only one of integers."""
    if entry.text("format") != "mds":
        raise FormatError(f"{path} names shards of format {entry.text('format')!r}, not 'mds'")
    names, encodings, sizes = (
        entry.fields.get(key) for key in ("column_names", "column_encodings", "column_sizes")
    )
    lists = [names, encodings, sizes]
    if not all(isinstance(value, list) and len(value) == len(names or []) for value in lists):
        raise CorruptShardError(f"{path} does not name columns, encodings and sizes alike")
    assert isinstance(names, list)
    assert isinstance(encodings, list)
    assert isinstance(sizes, list)
    if not all(size is None or (type(size) is int and 0 <= size < 1 << 32) for size in sizes):
        raise CorruptShardError(f"{path} has a column size that is none: {sizes!r:.100}")
    usable = [i for i, kind in enumerate(encodings) if _is_integers(kind)]
    named = [i for i, name in enumerate(names) if name in USUAL_NAMES]
    chosen = named if len(named) == 1 else usable
    if len(chosen) != 1:
        raise FormatError(
            f"{path} has no one column of tokens: {names!r:.100} are {encodings!r:.100}",
            hint="name the column `tokens` or `input_ids` when writing",
        )
    number = chosen[0]
    kind = str(encodings[number])
    # A size of 0 means "variable" to the writer too.
    fixed = tuple(size or None for size in sizes)
    if kind == "bytes":
        if ask.dtype is None:
            raise FormatError(
                f"{path} keeps its tokens as bytes (column {names[number]}): their type is unknown",
                hint=f'older llm-foundry sets are int64: tokenmill.open("{path.parent}", '
                'dtype="int64")',
            )
        return Column(ask.dtype, False, number, fixed)
    if not _is_integers(kind):
        raise FormatError(
            f"{path} has the column {names[number]!r} encoded as {kind!r:.40}: refused",
            hint="pickles (pkl) can run code; write the tokens as ndarray:uint16 or ndarray:int32"
            if kind == "pkl"
            else "write the tokens as ndarray:uint16 or ndarray:int32",
        )
    parts = kind.split(":")
    dtype = np.dtype(parts[1]).newbyteorder("<") if len(parts) > 1 else None
    if dtype is not None:
        dtype = ask.agreed(dtype, path)
    return Column(dtype, len(parts) < 3, number, fixed)


def _is_integers(kind: object) -> bool:
    if not isinstance(kind, str):
        return False
    parts = kind.split(":")
    return parts[0] == "ndarray" and (len(parts) == 1 or parts[1] in INTEGERS)


def _shard_path(root: untrusted.Root, entry: Reader) -> Path:
    raw = entry.object("raw_data")
    _, size = root.file(raw.file("basename"))
    if size is None and entry.fields.get("zip_data"):
        packed, _ = root.file(entry.object("zip_data").file("basename"))
        raise FormatError(
            f"{packed} is compressed ({entry.fields.get('compression')}): not read",
            hint=f"unpack it: tokenmill convert {root.folder} DST --to mds",
        )
    return root.sized(raw.file("basename"), raw.count("bytes"))


def _shard(
    root: untrusted.Root,
    entry: Reader,
    column: Column,
    dtype: np.dtype[Any],
    documents: bool,
    dtype_code: int,
) -> TokenFile:
    path = _shard_path(root, entry)
    raw = entry.object("raw_data")
    size, count = raw.count("bytes"), entry.count("samples")
    args = (str(path), count, column, dtype_code)
    if column.dtype is not None and not column.has_shape and column.sizes[column.number]:
        values = column.sizes[column.number] or 0
        num_tokens = count * untrusted.whole_tokens(path, values, dtype.itemsize, dtype.name)
        if num_tokens * dtype.itemsize > size:
            raise untrusted.too_short(path, size, num_tokens * dtype.itemsize, root.index.name)
    else:
        num_tokens = int(_table(path, count, column, dtype_code).starts[-1])
    hashes = raw.fields.get("hashes")
    return TokenFile(
        str(path),
        raw.file("basename"),
        dtype,
        num_tokens,
        size,
        pieces=Lazy(load_pieces, args),
        ends=Lazy(load_ends, args, count) if documents else None,
        digest=str(sorted(hashes.items()))[:400] if isinstance(hashes, dict) and hashes else "",
    )


@dataclass(frozen=True)
class Table:
    """Where the tokens of each sample of a shard lie."""

    starts: np.ndarray
    """On the axis of the shard, in tokens: one more than samples."""
    first_bytes: np.ndarray
    dtype_code: int


def load_pieces(
    path: str, count: int, column: Column, dtype_code: int
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of each sample as a piece."""
    table = _table(Path(path), count, column, dtype_code)
    return table.starts, table.first_bytes


def load_ends(path: str, count: int, column: Column, dtype_code: int) -> np.ndarray:
    """Where the samples end, when they are documents."""
    return _table(Path(path), count, column, dtype_code).starts[1:]


def _table(path: Path, count: int, column: Column, dtype_code: int = 0) -> Table:
    """Read the offsets of a shard and the headers in its samples; check that all add up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        if size < 8 + 4 * count:
            raise untrusted.too_short(path, size, 8 + 4 * count, f"its index ({count:,} samples)")
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    data = np.frombuffer(mapped, np.uint8)
    found = int.from_bytes(mapped[:4], "little")
    if found != count:
        raise CorruptShardError(
            f"{path} says that it has {found:,} samples; the index says {count:,}",
            hint="shard and index are of different builds; fetch both again",
        )
    offsets = np.frombuffer(mapped, "<u4", count + 1, 4).astype(np.int64)
    if offsets[0] < 8 + 4 * count or offsets[-1] != size or (np.diff(offsets) < 0).any():
        raise _damaged(path, f"its samples lie from byte {offsets[0]:,} to {offsets[-1]:,}", size)
    begins, lengths = offsets[:-1], np.diff(offsets)
    variable = [i for i, width in enumerate(column.sizes) if width is None]
    head = 4 * len(variable)
    if (lengths < head).any():
        raise _damaged(path, "a sample is shorter than its own header", size)
    widths = [
        np.full(count, width, np.int64)
        if width is not None
        else _integers(data, begins + 4 * variable.index(i), 4)
        for i, width in enumerate(column.sizes)
    ]
    if (sum(widths, np.full(count, head, np.int64)) != lengths).any():
        raise _damaged(path, "the columns of a sample are not as long as the sample", size)
    first_bytes = sum(widths[: column.number], begins + head)
    values = widths[column.number]
    return _without_headers(path, data, first_bytes, values, column, dtype_code, size)


def _without_headers(
    path: Path,
    data: np.ndarray,
    first_bytes: np.ndarray,
    widths: np.ndarray,
    column: Column,
    dtype_code: int,
    size: int,
) -> Table:
    """Step over the dtype and the shape that stand before the values."""
    dtype = column.dtype
    shape_at = first_bytes
    header = np.zeros(len(widths), np.int64)
    if dtype is None:
        if (widths < 1).any():
            raise _damaged(path, "a sample has no tokens", size)
        codes = data[first_bytes]
        dtype_code = dtype_code or int(codes[0] if len(codes) else 0)
        if dtype_code not in DTYPE_CODES or (codes != dtype_code).any():
            raise _damaged(path, "samples are of different types, or not integers", size)
        dtype = np.dtype(DTYPE_CODES[dtype_code])
        shape_at = first_bytes + 1
        header += 1
    if column.has_shape:
        if (widths <= header).any():
            raise _damaged(path, "a sample has no shape", size)
        marks = data[shape_at].astype(np.int64)
        header += 1 + (marks >> 2) * (1 << (marks & 3))
    values = widths - header
    if (values < 0).any() or (values % dtype.itemsize).any():
        raise _damaged(path, f"a sample is no whole number of {dtype.name}", size)
    counts = values // dtype.itemsize
    if column.has_shape:
        flat = (marks >> 2) == 1
        for code in np.unique(marks[flat] & 3):
            these = flat & ((marks & 3) == code)
            if (_integers(data, shape_at[these] + 1, 1 << int(code)) != counts[these]).any():
                raise _damaged(path, "the shape of a sample is not its length", size)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Table(starts, first_bytes + header, dtype_code)


def _integers(data: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Little-endian unsigned integers at any bytes."""
    gathered = data[at[:, None] + np.arange(width)]
    return gathered.view(f"<u{width}").reshape(-1).astype(np.int64)


def _damaged(path: Path, what: str, size: int) -> CorruptShardError:
    return CorruptShardError(
        f"{path} ({size:,} bytes) is damaged: {what}", hint="fetch this shard again"
    )
