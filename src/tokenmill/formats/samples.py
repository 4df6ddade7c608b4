"""What MDS and litdata share: samples in shards, each with a table of offsets, and an index.json.

A shard begins with the u32 number of samples n, then u32[n + 1]: where each sample begins, and
where the last one ends, in bytes. So a shard stays below 4 GiB.
"""

import mmap
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from tokenmill.base.strict_json import Maybe, Value
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import SAMPLE_INDEX, SAMPLE_KEYS, Ask, FolderFormat, FoundData
from tokenmill.formats.held_out import take
from tokenmill.formats.writing import Values, Writer, write_file

MAX_SHARD_BYTES = (1 << 32) - (1 << 20)
OUR_KEY = "tokenmill"  # in the index, when tokenmill wrote it
KINDS = ("documents", "rows")
OUR_FORM = {OUR_KEY: Maybe({"samples": Value(KINDS.__contains__, f"one of {', '.join(KINDS)}")})}


class SampleFormat(FolderFormat):
    """A format of samples: documents, or rows of one length cut from a stream of them."""

    dtypes = ("uint16", "uint32", "int32", "uint8", "int64", "uint64")
    tokens_per_shard = 1 << 25
    max_tokens_per_shard = 1 << 28
    is_indexed = True
    documents_by_id = False
    index_form: Mapping[str, Any] = OUR_FORM
    """What the index must have besides `OUR_FORM`."""

    @abstractmethod
    def read_shards(self, root: untrusted.Root, index: dict[str, Any], ask: Ask) -> FoundData:
        """Return all shards, by their entries in the index."""

    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        path = folder / SAMPLE_INDEX
        key = SAMPLE_KEYS[self.name]
        index = untrusted.read_json(path, {**self.index_form, **OUR_FORM})
        if not index[key]:
            raise FormatError(f"{path} names no {key}", hint="nothing was written; write it again")
        found = self.read_shards(untrusted.Root(folder, path), index, ask)
        return found.with_files(take(found.files, split, folder))

    def are_documents(self, index: dict[str, Any], lengths: np.ndarray) -> bool:
        """Return True if samples are documents, False if they are rows cut from a stream of them.

        Neither format says it: samples of different lengths are documents (formats.md).
        `lengths` are those of the first shard.
        """
        if OUR_KEY in index:
            return bool(index[OUR_KEY]["samples"] == "documents")
        return len(lengths) < 2 or bool((lengths != lengths[0]).any())


def map_samples(
    path: Path, count: int, length: int = 0, file: BinaryIO | None = None
) -> tuple[mmap.mmap, np.ndarray]:
    """Return a map of a shard, and its table: int64, where each sample begins and the last ends.

    `length` is how many bytes will be looked at, if more than the table; `file` is the content of
    a compressed shard.
    """
    why = f"its index ({count:,} samples)"
    mapped = untrusted.map_file(path, max(length, 8 + 4 * count), why, file)
    stated = int.from_bytes(mapped[:4], "little")
    if stated != count:
        raise untrusted.mixed(
            path, f"says that it has {stated:,} samples; the index says {count:,}"
        )
    return mapped, np.frombuffer(mapped, "<u4", count + 1, 4).astype(np.int64)


class SampleWriter(Writer):
    """Whole documents, collected in memory until they fill a shard."""

    folder_per_split = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.entries: list[dict[str, Any]] = []
        """What the index says about each shard."""
        self._chunks: list[np.ndarray] = []

    def offset_table(self, sizes: list[int], before: int = 0) -> bytes:
        """Return the start of a shard; `before` bytes are between table and first sample."""
        start = 4 * (len(sizes) + 2) + before
        offsets = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]) + start
        return np.concatenate([[len(sizes)], offsets]).astype("<u4").tobytes()

    @abstractmethod
    def write_shard(self, number: int, documents: list[np.ndarray]) -> dict[str, Any]:
        """Write these documents as one shard; return its entry in the index."""

    @abstractmethod
    def index(self) -> dict[str, Any]:
        """Return the index that names all shards, as JSON."""

    def open_shard(self) -> None:
        self._chunks = []

    def write(self, tokens: np.ndarray, columns: Values) -> None:
        self._chunks.append(tokens)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        assert ends[-1] == num_tokens, "a document without an end"
        tokens = np.concatenate(self._chunks)
        if tokens.nbytes > MAX_SHARD_BYTES:
            raise FormatError(
                f"a document makes a shard of {num_tokens:,} tokens; it must be below 4 GiB",
                hint="convert to another format, or cut this document",
            )
        self.entries.append(self.write_shard(self.number, np.split(tokens, ends[:-1])))

    def close(self) -> int:
        super().close()
        index = {**self.index(), OUR_KEY: {"samples": "documents"}}
        write_file(self.folder / SAMPLE_INDEX, orjson.dumps(index))
        return self.number
