"""Write MDS: one sample for each document, in a column `tokens` of `ndarray:<dtype>`."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from tokenmill.errors import FormatError
from tokenmill.formats import mds
from tokenmill.formats.engine import samples
from tokenmill.formats.engine.buffered import Buffered
from tokenmill.formats.engine.writing import Target, write_file

DTYPES = ("uint16", "uint32", "int32", "uint8", "int64", "uint64")
TOKENS_PER_SHARD = 1 << 25
MAX_TOKENS_PER_SHARD = 1 << 28


class MdsWriter(Buffered):
    """One split as a folder with an index."""

    def __init__(self, folder: Path, target: Target) -> None:
        super().__init__(folder, target)
        self._entries: list[dict[str, Any]] = []

    def write_shard(self, number: int, documents: list[np.ndarray]) -> None:
        """Offsets, the JSON, then each sample: its size, its shape, its ids."""
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
        written = [_sample(document) for document in documents]
        sizes = np.array([len(sample) for sample in written], np.int64)
        start = 4 + 4 * (len(written) + 1) + len(text)
        offsets = (np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]) + start).astype("<u4")
        head = np.array([len(written)], "<u4").tobytes() + offsets.tobytes() + text
        data = b"".join([head, *written])
        name = f"shard.{number:05d}.mds"
        write_file(self.folder / name, data)
        self._entries.append(
            {
                **config,
                "raw_data": {
                    "basename": name,
                    "bytes": len(data),
                    "hashes": {"xxh3_128": xxhash.xxh3_128_hexdigest(data)},
                },
                "samples": len(written),
                "zip_data": None,
            }
        )

    def write_index(self) -> None:
        """index.json"""
        index = {"shards": self._entries, "version": 2, samples.KEY: {"samples": "documents"}}
        write_file(self.folder / mds.INDEX, orjson.dumps(index))


def _sample(document: np.ndarray) -> bytes:
    count = len(document)
    if count == 0:
        raise FormatError(
            "an empty document cannot be written as MDS, which has no empty arrays",
            hint="pass allow_lost_documents=True (--allow-lost-documents) to leave such out",
        )
    code = 0 if count < 1 << 8 else 1 if count < 1 << 16 else 2
    shape = bytes([1 << 2 | code]) + count.to_bytes(1 << code, "little")
    values = document.tobytes()
    return (len(shape) + len(values)).to_bytes(4, "little") + shape + values


def open_writer(folder: Path, target: Target) -> MdsWriter:
    """A writer of one split."""
    return MdsWriter(folder, target)
