"""Document indexes as they lie beside tokens: one uint64 for each document, its end in tokens."""

import mmap
import os
from pathlib import Path

import numpy as np

from tokenmill.formats.engine import untrusted
from tokenmill.tokenfiles.token_file import Lazy


def ends_file(path: Path, count: int) -> Lazy:
    """The ends in a file of `count` uint64, mapped when first needed."""
    return Lazy(map_ends, (str(path), count), count, str(path))


def map_ends(path: str, count: int) -> np.ndarray:
    """A read-only view; as int64, since no position comes near 2^63."""
    if count == 0:
        return np.empty(0, np.int64)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        untrusted.expect_size(
            Path(path), os.fstat(descriptor).st_size, 8 * count, "the dataset as it was opened"
        )
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, "<i8", count=count)
