"""Write litdata in token mode: one item for each document, read there with a TokensLoader."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.formats import litdata
from tokenmill.formats.engine import samples
from tokenmill.formats.engine.buffered import Buffered
from tokenmill.formats.engine.writing import Target, write_file

DTYPES = ("uint16", "uint32", "int32", "uint8", "int64", "uint64")
TOKENS_PER_SHARD = 1 << 25
MAX_TOKENS_PER_SHARD = 1 << 28
CODES = {np.dtype(dtype).name: code for code, dtype in litdata.NUMPY_CODES.items()}
# The tree of one leaf, in the words of the library that litdata keeps it with.
ONE_LEAF = '[1, {"type": null, "context": null, "children_spec": []}]'


class LitdataWriter(Buffered):
    """One split as a folder with an index."""

    def __init__(self, folder: Path, target: Target) -> None:
        super().__init__(folder, target)
        self._chunks: list[dict[str, Any]] = []

    def write_shard(self, number: int, documents: list[np.ndarray]) -> None:
        """Offsets, then all ids."""
        sizes = np.array([document.nbytes for document in documents], np.int64)
        start = 4 * (len(documents) + 2)
        offsets = (np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]) + start).astype("<u4")
        head = np.array([len(documents)], "<u4").tobytes() + offsets.tobytes()
        name = f"chunk-0-{number}.bin"
        write_file(self.folder / name, b"".join([head, *(d.tobytes() for d in documents)]))
        self._chunks.append(
            {
                "chunk_bytes": int(start + sizes.sum()),
                "chunk_size": len(documents),
                "dim": sum(len(document) for document in documents),
                "filename": name,
            }
        )

    def write_index(self) -> None:
        """index.json"""
        config = {
            "chunk_bytes": self._limit * self.target.dtype.itemsize,
            "chunk_size": None,
            "compression": None,
            "data_format": [f"no_header_numpy:{CODES[self.target.dtype.name]}"],
            "data_spec": ONE_LEAF,
            "encryption": None,
            "item_loader": "TokensLoader",
        }
        # Fixed: the time of writing would make equal data unequal.
        index = {"chunks": self._chunks, "config": config, "updated_at": "0"}
        index[samples.KEY] = {"samples": "documents"}
        write_file(self.folder / litdata.INDEX, orjson.dumps(index))


def open_writer(folder: Path, target: Target) -> LitdataWriter:
    """A writer of one split."""
    return LitdataWriter(folder, target)
