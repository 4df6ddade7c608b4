"""Documents gathered in memory until they fill a shard, for formats with an offset table in front.

Both formats count bytes in u32, so a shard stays below 4 GiB; a document that is larger by itself
cannot be written.
"""

from pathlib import Path

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.formats.engine.writing import Target

SHARD_BYTES = 1 << 26
MAX_BYTES = (1 << 32) - (1 << 20)


class Buffered:
    """Takes chunks, gives whole documents to `write_shard`."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.folder = folder / target.split if target.split else folder
        self.folder.mkdir(exist_ok=True)
        self.target = target
        self.number = 0
        self._limit = target.tokens_per_shard
        self._begun: list[np.ndarray] = []
        self._documents: list[np.ndarray] = []
        self._filled = 0

    def write_shard(self, number: int, documents: list[np.ndarray]) -> None:
        """Write these documents as one shard."""
        raise NotImplementedError

    def write_index(self) -> None:
        """Write what names all shards."""
        raise NotImplementedError

    def add(self, tokens: np.ndarray, ends: np.ndarray) -> None:
        """Take tokens; whole documents leave when they fill a shard."""
        start = 0
        for end in ends.tolist():
            parts = [*self._begun, tokens[start:end]]
            document = np.concatenate(parts) if len(parts) > 1 else parts[0]
            self._begun = []
            if document.nbytes > MAX_BYTES:
                raise FormatError(
                    f"a document of {len(document):,} tokens is larger than a shard can be (4 GiB)",
                    hint="convert to another format, or cut this document",
                )
            if self._documents and self._filled + len(document) > self._limit:
                self._flush()
            self._documents.append(document)
            self._filled += len(document)
            start = end
        if start < len(tokens):
            self._begun.append(tokens[start:])

    def close(self) -> int:
        """Write the last shard and the index."""
        assert not self._begun, "a document without an end"
        if self._documents:
            self._flush()
        self.write_index()
        return self.number

    def _flush(self) -> None:
        self.write_shard(self.number, self._documents)
        self._documents = []
        self._filled = 0
        self.number += 1
