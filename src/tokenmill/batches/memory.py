"""Memory that batches give back is kept for the next ones.

glibc, the C library of most Linux systems, returns every freed block of 128 KiB or more to the
kernel, which hands it out again page by page, zeroed: for a batch of 64 rows of 1024 that takes
several times as long as filling it. But the library learns: once a larger block was freed, blocks
up to that size are kept. A program that trains has freed such a block long before; here one is
freed on purpose, never touched, so that the first batches are as fast as later ones. To other
libraries it means nothing.
"""

import functools

import numpy as np

_KEPT_UP_TO = 16 << 20  # bytes; glibc learns up to 32 MiB


@functools.cache
def keep_freed_memory() -> None:
    """Once in a process."""
    np.empty(_KEPT_UP_TO, np.uint8)
