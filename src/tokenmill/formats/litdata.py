"""litdata in token mode: `index.json` and chunks of tokens, written with a TokensLoader.

After the table of offsets (samples.py) come the tokens of all items, without anything between them.
`dim` in the index is the number of tokens of a chunk, `data_format` the dtype: `no_header_numpy:5`
is uint16, `no_header_tensor:16` int32.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.strict_json import COUNT, FILE_NAME, OBJECT
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FoundData
from tokenmill.formats.samples import SampleFormat, SampleWriter, map_samples
from tokenmill.formats.writing import write_file
from tokenmill.reading.token_file import Dtype, Lazy, TokenFile

NUMPY_CODES = dict(enumerate(("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8")))
TORCH_CODES = {
    11: "u1", 12: "i1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8", 20: "<u2"
}  # fmt: skip
CODES = {np.dtype(dtype).name: code for code, dtype in NUMPY_CODES.items()}
CHUNK = {"filename": FILE_NAME, "chunk_size": COUNT, "dim": COUNT}
INDEX = {"chunks": [CHUNK], "config": OBJECT}
WRITE_AGAIN = "write 1-D arrays of ids: litdata.optimize(..., item_loader=TokensLoader())"
# The tree of one leaf, in the words of the library that litdata keeps it with.
ONE_LEAF = '[1, {"type": null, "context": null, "children_spec": []}]'


class LitdataWriter(SampleWriter):
    """One split as a folder with an index."""

    def write_shard(self, number: int, documents: list[np.ndarray]) -> dict[str, Any]:
        name = f"chunk-0-{number}.bin"
        data = b"".join([self.offset_table([d.nbytes for d in documents]), *map(bytes, documents)])
        write_file(self.folder / name, data)
        return {
            "chunk_bytes": len(data),
            "chunk_size": len(documents),
            "dim": sum(map(len, documents)),
            "filename": name,
        }

    def index(self) -> dict[str, Any]:
        config = {
            "chunk_bytes": self.tokens_per_shard * self.dtype.itemsize,
            "chunk_size": None,
            "compression": None,
            "data_format": [f"no_header_numpy:{CODES[self.dtype.name]}"],
            "data_spec": ONE_LEAF,
            "encryption": None,
            "item_loader": "TokensLoader",
        }
        # Fixed: the time of writing would make equal data unequal.
        return {"chunks": self.entries, "config": config, "updated_at": "0"}


class Litdata(SampleFormat):
    """Chunks of items."""

    name = "litdata"
    writer = LitdataWriter
    written_suffixes = (".bin", ".json")
    index_form = INDEX

    def read_shards(self, root: untrusted.Root, index: dict[str, Any], ask: Ask) -> FoundData:
        dtype = ask.agreed(_dtype(index["config"], root.index), root.index)
        shards = [_chunk(root, chunk, dtype) for chunk in index["chunks"]]
        assert shards[0].ends is not None
        documents = self.are_documents(index, np.diff(shards[0].ends(), prepend=0))
        if not documents:
            shards = [replace(shard, ends=None) for shard in shards]
        return FoundData(self.name, tuple(shards), details={"rows": not documents})


def _dtype(config: dict[str, Any], path: Path) -> Dtype:
    """Return the dtype of chunks of plain tokens; others are refused."""
    formats = config.get("data_format")
    name, _, code = str(formats[0] if isinstance(formats, list) and formats else "").partition(":")
    codes = {"no_header_numpy": NUMPY_CODES, "no_header_tensor": TORCH_CODES}.get(name, {})
    stated = {key: config.get(key) for key in ("compression", "encryption", "item_loader")}
    is_plain = list(stated.values()) == [None, None, "TokensLoader"] and formats == [
        f"{name}:{code}"
    ]
    if not is_plain or not code.isdecimal() or int(code) not in codes:
        raise FormatError(
            f"{path} has data_format {formats!r:.60} with {stated!r:.150}: only integers in token "
            "mode, without compression and encryption, are read",
            hint="unpickling can run code, so it is never done; " + WRITE_AGAIN,
        )
    return np.dtype(codes[int(code)])


def _chunk(root: untrusted.Root, chunk: dict[str, Any], dtype: Dtype) -> TokenFile:
    name = chunk["filename"]
    count = chunk["chunk_size"]
    num_tokens = chunk["dim"]
    offset = 4 * (count + 2)
    size = offset + num_tokens * dtype.itemsize
    path = root.path(name, size)
    _, table = map_samples(Path(path), count)
    if (table[0], table[-1]) != (offset, size):
        what = f"says items from byte {table[0]:,} to {table[-1]:,}; the index says "
        raise untrusted.mixed(path, what + f"from {offset:,} to {size:,}")
    ends = Lazy(load_ends, (path, count, dtype.itemsize), count)
    return TokenFile(path, name, dtype, num_tokens, size, offset, ends=ends)


def load_ends(path: str, count: int, itemsize: int) -> np.ndarray:
    """Return where the items of a chunk end, in tokens: int64."""
    _, table = map_samples(Path(path), count)
    sizes = np.diff(table)
    if (sizes < 0).any() or (sizes % itemsize).any():
        raise untrusted.damaged(path, "has items that go back, or are no whole number of tokens")
    result: np.ndarray = (table[1:] - table[0]) // itemsize
    return result
