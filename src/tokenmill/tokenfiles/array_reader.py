"""One array in memory in the place of files."""

from collections.abc import Sequence

import numpy as np

from tokenmill.tokenfiles.token_file import ShardReader, TokenFile


class MemoryReader(ShardReader):
    """One array in the place of files."""

    def __init__(self, files: Sequence[TokenFile], array: np.ndarray) -> None:
        super().__init__(files, backend="memory")
        self._array = array

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryReader, (self.files, self._array)

    def of(self, files: Sequence[TokenFile]) -> "MemoryReader":
        """A reader of the same array."""
        return MemoryReader(files, self._array)

    def array(self, i: int) -> np.ndarray:
        """The array."""
        return self._array

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens from `offset` on until the 1-D array `out` is full."""
        if offset < 0 or offset + len(out) > len(self._array):
            raise IndexError(f"tokens {offset} to {offset + len(out)} of {len(self._array)}")
        np.copyto(out, self._array[offset : offset + len(out)], casting="same_kind")
