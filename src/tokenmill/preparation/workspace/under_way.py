"""How far each unit of the running stage is, for the progress shown: eight bytes a unit, in a file.

A unit may take minutes, such as a compressed file that is one. Whoever works on it writes how many
bytes of it are read; whoever shows progress adds them up now and then. Nothing else depends on it.
"""

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.reading.chunks import ChunkFacts

AnyChunk = TypeVar("AnyChunk", bound=ChunkFacts)


class UnderWay:
    """The units of one stage."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.root / "under-way"

    def clear(self) -> None:
        """A stage begins."""
        self._path.unlink(missing_ok=True)

    def noting(self, unit: int, chunks: Iterable[AnyChunk]) -> Iterator[AnyChunk]:
        """Pass the chunks of a unit on; each is noted when the next one is asked for."""
        num_bytes = 0
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            for chunk in chunks:
                yield chunk
                num_bytes += chunk.bytes_in
                os.pwrite(file, num_bytes.to_bytes(8, "little"), 8 * unit)
        finally:
            os.close(file)

    def bytes_read(self, but: Iterable[int]) -> int:
        """Of all units, without those that are finished."""
        try:
            read = np.fromfile(self._path, "<u8")
        except FileNotFoundError:
            return 0
        read[[unit for unit in but if unit < len(read)]] = 0
        return int(read.sum())
