"""MDS, the format of MosaicML Streaming: `index.json` and shards of samples with several columns.

A shard: u32 number of samples n; u32[n + 1] where each begins, and the last ends, in bytes; a JSON
copy of its entry in the index; the samples. A sample: u32 size of each column that has no fixed
one, then the columns one after another. A column of tokens is `ndarray:int32` (a byte
`ndim << 2 | code`, the shape in integers of 2^code bytes, the values), `ndarray:int32:2048` (values
only), or `bytes` (values only, and the dtype is asked for).

Headers are between the tokens, so these shards are read piece by piece and never mapped as one run.
With a fixed shape the index alone says how many tokens there are; else opening reads the table of
each shard. Columns of type `pkl` are pickles: never read. The samples of a compressed shard cannot
be reached one by one: such shards are unpacked into the cache folder when they are first read, or
when opening needs their tables. One sample is written for each document, in a column `tokens`.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import orjson
import xxhash

from tokenmill.base.strict_json import Reader
from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import INTEGERS, Ask, FoundData
from tokenmill.formats.samples import (
    SampleFormat,
    SampleWriter,
    map_samples,
    offset_table,
    samples_are_documents,
)
from tokenmill.formats.writing import write_file
from tokenmill.reading.token_file import Lazy, Packed, TokenFile

if TYPE_CHECKING:
    from tokenmill.reading.shard_cache import CachedFile, ShardCache

CODECS = ("zstd", "gz", "bz2")
USUAL_NAMES = ("tokens", "input_ids")
INTEGER_ARRAYS = re.compile(rf"ndarray(:(?P<dtype>{'|'.join(INTEGERS)})(:(?P<shape>.*))?)?")
DTYPE_CODES = {8: "u1", 9: "i1", 16: "u2", 17: "i2", 32: "u4", 33: "i4", 64: "u8", 65: "i8"}


class MdsWriter(SampleWriter):
    """One split as a folder with an index."""

    def write_shard(self, number: int, documents: list[np.ndarray]) -> dict[str, Any]:
        config = {
            "column_encodings": [f"ndarray:{self.target.dtype.name}"],
            "column_names": ["tokens"],
            "column_sizes": [None],
            "compression": None,
            "format": "mds",
            "hashes": ["xxh3_128"],
            "size_limit": 1 << 26,
            "version": 2,
        }
        text = orjson.dumps(config)
        samples = [_sample(document) for document in documents]
        table = offset_table([len(sample) for sample in samples], before=len(text))
        data = b"".join([table, text, *samples])
        name = f"shard.{number:05d}.mds"
        write_file(self.folder / name, data)
        raw_data = {
            "basename": name,
            "bytes": len(data),
            "hashes": {"xxh3_128": xxhash.xxh3_128_hexdigest(data)},
        }
        return {**config, "raw_data": raw_data, "samples": len(samples), "zip_data": None}

    def index(self) -> dict[str, Any]:
        return {"shards": self.entries, "version": 2}


def _sample(document: np.ndarray) -> bytes:
    count = len(document)
    if count == 0:
        raise FormatError(
            "an empty document cannot be written as MDS, which has no empty arrays",
            hint="pass allow_lost_documents=True to leave such out",
        )
    code = 0 if count < 1 << 8 else 1 if count < 1 << 16 else 2
    shape = bytes([1 << 2 | code]) + count.to_bytes(1 << code, "little")
    values = document.tobytes()
    return (len(shape) + len(values)).to_bytes(4, "little") + shape + values


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


class Mds(SampleFormat):
    """Shards of samples with columns."""

    name = "mds"
    writer = MdsWriter
    written_suffixes = (".mds", ".json")

    def read_shards(
        self, root: untrusted.Root, index: Reader, entries: list[Reader], ask: Ask
    ) -> FoundData:
        path = root.index
        untrusted.expect_version(path, index.count("version"), 2)
        column = _column(entries[0], path, ask)
        first = _samples(root, entries[0], column, 0, ask).read()
        dtype = column.dtype or ask.agreed(np.dtype(DTYPE_CODES[first.dtype_code]), path)
        documents = samples_are_documents(index, np.diff(first.starts))
        shards = []
        for number, entry in enumerate(entries):
            if _column(entry, path, ask) != column:
                raise FormatError(
                    f"{path} has other columns in shard {number} than in shard 0",
                    hint="these are two datasets; open the shards of each in a folder of its own",
                )
            samples = _samples(root, entry, column, first.dtype_code, ask)
            shards.append(_shard(root, entry, samples, dtype, documents))
        name = entries[0].fields["column_names"][column.number]
        details = {"column": name, "rows": not documents}
        return FoundData(self.name, tuple(shards), details=details)


FORMAT = Mds()


def _column(entry: Reader, path: Path, ask: Ask) -> Column:
    """The column of tokens: the one of that name, or the only one of integers."""
    if entry.text("format") != "mds":
        raise FormatError(f"{path} names shards of format {entry.text('format')!r}, not 'mds'")
    keys = ("column_names", "column_encodings", "column_sizes")
    columns: list[Any] = [entry.fields.get(key) for key in keys]
    if not all(isinstance(x, list) for x in columns) or len(set(map(len, columns))) != 1:
        raise CorruptShardError(f"{path} does not name columns, encodings and sizes alike")
    names, encodings, sizes = columns
    if not all(size is None or (type(size) is int and 0 <= size < 1 << 32) for size in sizes):
        raise CorruptShardError(f"{path} has a column size that is none: {sizes!r:.100}")
    usable = [i for i, kind in enumerate(encodings) if INTEGER_ARRAYS.fullmatch(str(kind))]
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
    found = INTEGER_ARRAYS.fullmatch(kind)
    if found is None:
        raise FormatError(
            f"{path} has the column {names[number]!r} encoded as {kind!r:.40}: refused",
            hint=("pickles (pkl) can run code; " if kind == "pkl" else "")
            + "write the tokens as ndarray:uint16 or ndarray:int32",
        )
    stated = np.dtype(found["dtype"]).newbyteorder("<") if found["dtype"] else None
    dtype = ask.agreed(stated, path) if stated else None
    return Column(dtype, found["shape"] is None, number, fixed)


def _samples(
    root: untrusted.Root, entry: Reader, column: Column, dtype_code: int, ask: Ask
) -> "Samples":
    raw = entry.object("raw_data")
    count = entry.count("samples")
    name = raw.file("basename")
    if root.look_at(name)[1] is None and entry.fields.get("zip_data"):
        zipped = entry.object("zip_data")
        path = root.sized(zipped.file("basename"), zipped.count("bytes"))
        file = _cached(Path(path), zipped.count("bytes"), entry)
        return Samples(path, count, column, dtype_code, Unpacked(ask.cache(), file))
    return Samples(root.sized(name, raw.count("bytes")), count, column, dtype_code)


def _cached(path: Path, packed_bytes: int, entry: Reader) -> "CachedFile":
    """Return a compressed shard as the cache is to hold it; with its hash, if the index has it."""
    from tokenmill.reading.shard_cache import CachedFile

    codec = str(entry.fields.get("compression")).split(":")[0]
    if codec not in CODECS:
        unpack = (
            f"unpack the shards where they are: brotli -dk {shlex.quote(str(path.parent))}/*.br"
        )
        if untrusted.MIRRORED in str(path):
            unpack = "fetch the folder to a disk and unpack its shards there: brotli -d *.br"
        raise FormatError(
            f"{path} is compressed with {codec!r:.40}; known are {', '.join(CODECS)}",
            hint=(f"{unpack}; or " if codec == "br" else "")
            + "write the dataset again without compression, or with zstd, gz or bz2",
        )
    raw = entry.object("raw_data")
    hashes = raw.fields.get("hashes")
    digest = str(hashes.get("xxh3_128", "")) if isinstance(hashes, dict) else ""
    packed = Packed(packed_bytes, codec, content_xxh3_128=digest)
    if untrusted.MIRRORED in str(path):
        from tokenmill.formats.mirror import object_at

        shown, _ = object_at(path)
        return CachedFile(shown.address, raw.count("bytes"), digest, shown.etag, packed)
    about = path.stat()
    version = f"{about.st_size}-{about.st_mtime_ns}-{about.st_ino}"
    return CachedFile(str(path), raw.count("bytes"), digest, version, packed)


def _shard(
    root: untrusted.Root, entry: Reader, samples: "Samples", dtype: np.dtype[Any], documents: bool
) -> TokenFile:
    column = samples.column
    raw = entry.object("raw_data")
    size = raw.count("bytes")
    width = column.sizes[column.number]  # bytes of the tokens of each sample, where all have it
    if column.dtype is not None and not column.has_shape and width:
        path = Path(samples.path)
        in_each = untrusted.whole_tokens(path, width, dtype.itemsize, dtype.name)
        num_tokens = samples.count * in_each
        untrusted.expect_at_least(path, size, num_tokens * dtype.itemsize, root.index.name)
    else:
        num_tokens = int(samples.read().starts[-1])
    hashes = raw.fields.get("hashes")
    stated = str(sorted(hashes.items()))[:400] if isinstance(hashes, dict) and hashes else ""
    unpacked = samples.unpacked
    return TokenFile(
        samples.path,
        raw.file("basename"),
        dtype,
        num_tokens,
        size,
        pieces=Lazy(samples.pieces, ()),
        ends=Lazy(samples.ends, (), samples.count) if documents else None,
        stated_hash=stated,
        etag=unpacked.file.etag if unpacked else "",
        packed=unpacked.file.packed if unpacked else None,
    )


@dataclass(frozen=True)
class Unpacked:
    """The content of a compressed shard, in the cache."""

    cache: "ShardCache"
    file: "CachedFile"

    def open(self) -> BinaryIO:
        """Open the content; it is unpacked into the cache where it is not there."""
        return os.fdopen(self.cache.open(self.file), "rb", buffering=0)


@dataclass(frozen=True)
class TokenPieces:
    """Where the tokens of the samples of one shard are."""

    starts: np.ndarray
    """int64 [samples + 1]: position of the first token of each in the shard; last, the total."""
    first_bytes: np.ndarray
    """int64 [samples]: byte of the first token of each."""
    dtype_code: int
    """Which samples without a stated dtype have; 0 for others."""


@dataclass(frozen=True)
class Samples:
    """The samples of one shard, by its table of offsets and by the headers in them."""

    path: str
    count: int
    column: Column
    dtype_code: int
    """Which samples without a stated dtype must have; 0: any, but all of them the same."""
    unpacked: Unpacked | None = None

    def pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and first bytes of the samples, as `TokenFile.pieces` loads them."""
        pieces = self.read()
        return pieces.starts, pieces.first_bytes

    def ends(self) -> np.ndarray:
        """Return where the samples end, when they are documents: int64."""
        return self.read().starts[1:]

    def read(self) -> TokenPieces:
        """Read the table of offsets and the headers; all sizes must add up."""
        column = self.column
        unpacked = Lazy(self.unpacked.open, ()) if self.unpacked else None
        mapped, offsets = map_samples(Path(self.path), self.count, unpacked=unpacked)
        first = int(offsets[0])
        last = int(offsets[-1])
        begins = offsets[:-1]  # [samples], bytes; so are all arrays below
        lengths = np.diff(offsets)
        is_outside = first < 8 + 4 * self.count or last != len(mapped) or (lengths < 0).any()
        self._refuse(is_outside, f"its samples are from byte {first:,} to {last:,}")
        variable = [i for i, width in enumerate(column.sizes) if width is None]
        header = 4 * len(variable)
        self._refuse(lengths < header, "a sample is shorter than its own header")
        data = np.frombuffer(mapped, np.uint8)
        widths = [
            np.full(self.count, width, np.int64)
            if width is not None
            else _integers(data, begins + 4 * variable.index(i), 4)
            for i, width in enumerate(column.sizes)
        ]
        total = sum(widths, np.full(self.count, header, np.int64))
        self._refuse(total != lengths, "the columns of a sample are not as long as the sample")
        first_bytes = sum(widths[: column.number], begins + header)
        return self._without_headers(data, first_bytes, widths[column.number])

    def _without_headers(
        self, data: np.ndarray, first_bytes: np.ndarray, widths: np.ndarray
    ) -> TokenPieces:
        """Step over the dtype and the shape that come before the values of each sample."""
        dtype = self.column.dtype
        code = self.dtype_code
        header = np.zeros(len(widths), np.int64)  # [samples], bytes before the values
        if dtype is None:
            self._refuse(widths < 1, "a sample has no tokens")
            codes = data[first_bytes]
            code = code or int(codes[0] if len(codes) else 0)
            is_other = code not in DTYPE_CODES or (codes != code).any()
            self._refuse(is_other, "samples are of different types, or not integers")
            dtype = np.dtype(DTYPE_CODES[code])
            header += 1
        shape_at = first_bytes + header
        if self.column.has_shape:
            self._refuse(widths <= header, "a sample has no shape")
            marks = data[shape_at].astype(np.int64)
            header += 1 + (marks >> 2) * (1 << (marks & 3))
        counts, rest = np.divmod(widths - header, dtype.itemsize)
        self._refuse((counts < 0) | (rest > 0), f"a sample is no whole number of {dtype.name}")
        if self.column.has_shape:
            flat = (marks >> 2) == 1
            for width in np.unique(marks[flat] & 3):
                these = flat & ((marks & 3) == width)
                stated = _integers(data, shape_at[these] + 1, 1 << int(width))
                self._refuse(stated != counts[these], "the shape of a sample is not its length")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return TokenPieces(starts, first_bytes + header, code)

    def _refuse(self, is_bad: np.ndarray | np.bool | bool, what: str) -> None:
        if np.any(is_bad):
            raise untrusted.damaged(self.path, f"is damaged: {what}")


def _integers(data: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Read little-endian unsigned integers at any bytes: int64, as many as `at`."""
    gathered = data[at[:, None] + np.arange(width)]
    return gathered.view(f"<u{width}").reshape(-1).astype(np.int64)
