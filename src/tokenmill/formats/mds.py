"""MDS, the format of MosaicML Streaming: `index.json` and shards of samples with several columns.

After the table of offsets (samples.py) come a JSON copy of the shard's entry in the index, and the
samples: u32 size of each column that has no fixed one, then the columns one after another. A column
of tokens is `ndarray:int32` (a byte `ndim << 2 | code`, the shape in integers of 2^code bytes, the
values), `ndarray:int32:2048` (values only), or `bytes` (values only, and the dtype is asked for).
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.strict_json import COUNT, FILE_NAME, OBJECT, TEXT, Maybe, Value, check_fields
from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import INTEGERS, Ask, FoundData
from tokenmill.formats.samples import SampleFormat, SampleWriter, map_samples
from tokenmill.formats.writing import write_file
from tokenmill.reading.token_file import Dtype, Lazy, Packed, TokenFile

if TYPE_CHECKING:
    from tokenmill.reading.shard_cache import CachedFile, ShardCache

CODECS = ("zstd", "gz", "bz2")
USUAL_NAMES = ("tokens", "input_ids")
INTEGER_ARRAYS = re.compile(rf"ndarray(:(?P<dtype>{'|'.join(INTEGERS)})(:(?P<shape>.*))?)?")
DTYPE_CODES = {8: "u1", 9: "i1", 16: "u2", 17: "i2", 32: "u4", 33: "i4", 64: "u8", 65: "i8"}
COLUMN_KEYS = ("column_names", "column_encodings", "column_sizes")
COLUMN_SIZE = Value(
    lambda size: size is None or (type(size) is int and 0 <= size < 1 << 32), "a size, or null"
)
FILE = {"basename": FILE_NAME, "bytes": COUNT}
SHARD = {
    "format": TEXT,
    "samples": COUNT,
    "column_names": [TEXT],
    "column_encodings": [TEXT],
    "column_sizes": [COLUMN_SIZE],
    "raw_data": {**FILE, "hashes": Maybe(OBJECT)},
}
INDEX = {"version": COUNT, "shards": [SHARD]}


class MdsWriter(SampleWriter):
    """One split as a folder with an index."""

    def write_shard(self, number: int, documents: list[np.ndarray]) -> dict[str, Any]:
        config = {
            "column_encodings": [f"ndarray:{self.dtype.name}"],
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
        table = self.offset_table([len(sample) for sample in samples], before=len(text))
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
    code = 0 if count < 1 << 8 else 1 if count < 1 << 16 else 2
    shape = bytes([1 << 2 | code]) + count.to_bytes(1 << code, "little")
    values = document.tobytes()
    return (len(shape) + len(values)).to_bytes(4, "little") + shape + values


@dataclass(frozen=True)
class Column:
    """Where the tokens are in a sample, and how they are written."""

    number: int
    sizes: tuple[int | None, ...]
    """Bytes of each column of a sample; None: a u32 in the sample says it."""
    dtype: Dtype | None = None
    """None: each sample begins with a byte that says it."""
    has_shape: bool = False
    """True if the shape comes before the values of each sample."""


class Mds(SampleFormat):
    """Shards of samples with columns."""

    name = "mds"
    writer = MdsWriter
    written_suffixes = (".mds", ".json")
    index_form = INDEX

    def read_shards(self, root: untrusted.Root, index: dict[str, Any], ask: Ask) -> FoundData:
        untrusted.expect_version(root.index, index["version"], 2)
        entries = index["shards"]
        column = _column(entries[0], root.index, ask)
        starts, _, dtype = _samples(root, entries[0], column, ask).read()
        ask.agreed(dtype, root.index)
        documents = self.are_documents(index, np.diff(starts))
        files = []
        for number, entry in enumerate(entries):
            if [entry[key] for key in COLUMN_KEYS] != [entries[0][key] for key in COLUMN_KEYS]:
                raise FormatError(
                    f"{root.index} has other columns in shard {number} than in shard 0",
                    hint="these are two datasets; open the shards of each in a folder of its own",
                )
            samples = _samples(root, entry, column, ask)
            files.append(_token_file(root, entry, samples, dtype, documents))
        name = entries[0]["column_names"][column.number]
        return FoundData(self.name, tuple(files), details={"column": name, "rows": not documents})


def _column(entry: dict[str, Any], path: Path, ask: Ask) -> Column:
    """Return the column named as tokens usually are, else the only one of integers."""
    names, encodings, sizes = (entry[key] for key in COLUMN_KEYS)
    if entry["format"] != "mds" or not len(names) == len(encodings) == len(sizes):
        raise CorruptShardError(f"{path} does not name mds columns, encodings and sizes alike")
    named = [i for i, name in enumerate(names) if name in USUAL_NAMES]
    usable = [i for i, kind in enumerate(encodings) if INTEGER_ARRAYS.fullmatch(kind)]
    chosen = named if len(named) == 1 else usable
    if len(chosen) != 1:
        raise FormatError(
            f"{path} has no one column of tokens: {names!r:.100} are {encodings!r:.100}",
            hint="name the column `tokens` or `input_ids` when writing",
        )
    number = chosen[0]
    kind = encodings[number]
    # A size of 0 means "variable" to the writer too.
    fixed = tuple(size or None for size in sizes)
    if kind == "bytes" and ask.dtype is not None:
        return Column(number, fixed, ask.dtype)
    if array := INTEGER_ARRAYS.fullmatch(kind):
        dtype = np.dtype(array["dtype"]).newbyteorder("<") if array["dtype"] else None
        return Column(number, fixed, dtype, array["shape"] is None)
    hint = "write the tokens as ndarray:uint16 or ndarray:int32; a pickle can run code"
    if kind == "bytes":
        hint = f'tokenmill.open("{path.parent}", dtype="int64"), as older llm-foundry wrote them'
    raise FormatError(
        f"{path} has the column {names[number]!r} encoded as {kind!r:.40}: their type is unknown",
        hint=hint,
    )


def _samples(root: untrusted.Root, entry: dict[str, Any], column: Column, ask: Ask) -> "Samples":
    """Return the samples of an entry of the index; sizes are compared."""
    raw = entry["raw_data"]
    count = entry["samples"]
    if not entry.get("zip_data") or (root.folder / raw["basename"]).exists():
        path = root.path(raw["basename"], raw["bytes"])
        return Samples(path, count, raw["bytes"], column)
    check_fields(entry["zip_data"], FILE, str(root.index), "zip_data", others=True)
    path = root.path(entry["zip_data"]["basename"], entry["zip_data"]["bytes"])
    packed = _packed_file(Path(path), entry)
    return Samples(path, count, raw["bytes"], column, packed, ask.cache())


def _packed_file(path: Path, entry: dict[str, Any]) -> "CachedFile":
    """Return a compressed shard as the cache is to hold it; with its hash, if the index has it."""
    from tokenmill.reading.shard_cache import CachedFile

    codec = str(entry.get("compression")).split(":")[0]
    if codec not in CODECS:
        raise FormatError(
            f"{path} is compressed with {codec!r:.40}; known are {', '.join(CODECS)}",
            hint="fetch the folder to a disk and unpack its shards there (those of brotli: "
            f"brotli -dk {shlex.quote(str(path.parent))}/*.br), or write the dataset again",
        )
    digest = str(entry["raw_data"].get("hashes", {}).get("xxh3_128", ""))
    packed = Packed(entry["zip_data"]["bytes"], codec, content_xxh3_128=digest)
    address, version = untrusted.version_of(path)
    return CachedFile(address, entry["raw_data"]["bytes"], digest, version, packed)


def _token_file(
    root: untrusted.Root,
    entry: dict[str, Any],
    samples: "Samples",
    dtype: Dtype,
    documents: bool,
) -> TokenFile:
    path = Path(samples.path)
    column = samples.column
    width = column.sizes[column.number]
    if width and column.dtype is not None and not column.has_shape:
        in_each = untrusted.whole_tokens(path, width, dtype)
        num_tokens = samples.count * in_each
        needed = num_tokens * dtype.itemsize
        untrusted.expect_at_least(path, samples.num_bytes, needed, root.index.name)
    else:
        starts, _, found_dtype = samples.read()
        num_tokens = int(starts[-1])
        if found_dtype != dtype:
            raise untrusted.damaged(path, f"has samples of {found_dtype}, not {dtype}")
    hashes = entry["raw_data"].get("hashes")
    return TokenFile(
        samples.path,
        entry["raw_data"]["basename"],
        dtype,
        num_tokens,
        samples.num_bytes,
        pieces=Lazy(samples.pieces, ()),
        ends=Lazy(samples.ends, (), samples.count) if documents else None,
        stated_hash=str(sorted(hashes.items()))[:400] if hashes else "",
        etag=samples.file.etag if samples.file else "",
        packed=samples.file.packed if samples.file else None,
    )


@dataclass(frozen=True)
class Samples:
    """The samples of one shard, by its table of offsets and by the headers in them."""

    path: str
    count: int
    num_bytes: int
    column: Column
    file: "CachedFile | None" = None
    """Where the shard is compressed: what the cache holds of it."""
    cache: "ShardCache | None" = None

    def pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and first bytes of the samples, as `TokenFile.pieces` loads them."""
        return self.read()[:2]

    def ends(self) -> np.ndarray:
        """Return where the samples end, when they are documents: int64."""
        return self.read()[0][1:]

    def read(self) -> tuple[np.ndarray, np.ndarray, Dtype]:
        """Read the table of offsets and the headers; all sizes must add up.

        Returns the position of the first token of each sample, and last the total: int64 [samples +
        1]; the byte of that token: int64 [samples]; and the type of the tokens.
        """
        data, values_at, widths = self._column_bytes()
        column = self.column
        dtype = column.dtype
        header = np.zeros(self.count, np.int64)  # [samples], bytes before the values
        if dtype is None:
            self._refuse(widths < 1, "a sample has no tokens")
            codes = np.unique(data[values_at])
            is_other = len(codes) != 1 or int(codes[0]) not in DTYPE_CODES
            self._refuse(is_other, "samples are of different types, or not integers")
            dtype = np.dtype(DTYPE_CODES[int(codes[0])])
            header += 1
        if column.has_shape:
            self._refuse(widths <= header, "a sample has no shape")
            shape_at = values_at + header
            marks = data[shape_at].astype(np.int64)
            header += 1 + (marks >> 2) * (1 << (marks & 3))
        counts, rest = np.divmod(widths - header, dtype.itemsize)
        self._refuse((counts < 0) | (rest > 0), f"a sample is no whole number of {dtype.name}")
        for log_width in range(4) if column.has_shape else ():
            flat = marks == (1 << 2 | log_width)  # with one number as the shape
            stated = _integers(data, shape_at[flat] + 1, 1 << log_width)
            self._refuse(stated != counts[flat], "the shape of a sample is not its length")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return starts, values_at + header, dtype

    def _column_bytes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all bytes; then of each sample the first byte and the bytes of our column."""
        content = None
        if self.file and self.cache:  # unpacked into the cache if need be
            content = os.fdopen(self.cache.open(self.file), "rb", buffering=0)
        mapped, offsets = map_samples(Path(self.path), self.count, self.num_bytes, content)
        begins = offsets[:-1]  # [samples], bytes; so are all arrays below
        lengths = np.diff(offsets)
        first = int(offsets[0])
        last = int(offsets[-1])
        is_outside = first < 8 + 4 * self.count or last != len(mapped) or (lengths < 0).any()
        self._refuse(is_outside, f"its samples are from byte {first:,} to {last:,}")
        header = 4 * self.column.sizes.count(None)
        self._refuse(lengths < header, "a sample is shorter than its own header")
        data = np.frombuffer(mapped, np.uint8)
        size_at = begins
        at = begins + header
        for number, width in enumerate(self.column.sizes):
            widths = np.full(self.count, width or 0, np.int64)
            if width is None:
                widths = _integers(data, size_at, 4)
                size_at = size_at + 4
            if number == self.column.number:
                ours = (at, widths)
            at = at + widths
        self._refuse(at != offsets[1:], "the columns of a sample are not as long as the sample")
        return data, *ours

    def _refuse(self, is_bad: np.ndarray | np.bool_ | bool, what: str) -> None:
        if np.any(is_bad):
            raise untrusted.damaged(self.path, f"is damaged: {what}")


def _integers(data: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Read little-endian unsigned integers at any bytes: int64, as many as `at`."""
    gathered = data[at[:, None] + np.arange(width)]
    return gathered.view(f"<u{width}").reshape(-1).astype(np.int64)
