"""Progress inside the units of the running stage: a file with eight bytes per unit.

A unit may take minutes, for example a compressed file. The worker writes how many bytes of it are
read; the driver adds them up to show progress. Nothing else depends on it.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from tokenmill.preparation.workspace.work_folder import Workspace


class Readable(Protocol):
    """Something that was read."""

    @property
    def bytes_in(self) -> int:
        """Bytes of the input that it covers."""


AnyChunk = TypeVar("AnyChunk", bound=Readable)


class UnderWay:
    """The units of one stage."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.root / "under-way"

    def clear(self) -> None:
        """Start a stage."""
        self._path.unlink(missing_ok=True)

    def noting(self, unit: int, chunks: Iterable[AnyChunk]) -> Iterator[AnyChunk]:
        """Yield the chunks of a unit; each is noted when the next one is asked for."""
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
        """Return the bytes read of all units but the finished ones."""
        try:
            read = np.fromfile(self._path, "<u8")
        except FileNotFoundError:
            return 0
        read[[unit for unit in but if unit < len(read)]] = 0
        return int(read.sum())
