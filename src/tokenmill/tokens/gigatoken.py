"""The fast encoder for byte-level BPE, with its memory bounded.

gigatoken encodes 150 to 400 MB/s on one core because it remembers the ids of every word it has
seen. That memory has no limit of its own: 28 MB of English adds about 30 MB, but random letters
add 6 bytes for each byte of text, 1.3 GB after 240 MB. So the encoder is thrown away and built
again (0.1 s) when the process has grown by GROWTH_LIMIT since it was built, or after TEXT_LIMIT.
Ids do not depend on it.

Not for texts that are not UTF-8.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.tokenizer import Ends, Ids, ends_of

GROWTH_LIMIT = 256 << 20  # bytes of resident memory
TEXT_LIMIT = 4 << 30  # bytes of text, where resident memory can be asked for
TEXT_LIMIT_UNSEEN = 64 << 20  # and where it cannot: worst case then 400 MB
SINGLY = 100_000  # texts of a process, at 2 us each: more are worth the 0.4 s to import awkward


class Encoder:
    """gigatoken, built by a function when first used, and built again before it grows too large."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._backend: Any = None
        self._text_seen = 0
        self._texts_singly = 0
        self._size_when_built: int | None = None

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        if not texts:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        if self._backend is None:
            self._backend, self._text_seen = self._build(), 0
            self._size_when_built = resident_bytes()
        if self._texts_singly + len(texts) <= SINGLY or len(texts) == 1:
            self._texts_singly += len(texts)
            found = list(map(self._backend.encode, texts))
            ids, ends = np.concatenate(found) if len(found) > 1 else found[0], ends_of(found)
        else:
            ids, ends = self._encode_many(texts)
        self._text_seen += sum(map(len, texts))
        if self._is_worn():
            self._backend = None
        return ids, ends

    def _encode_many(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        # parallel=False: our workers are processes, a thread pool in each would fight the others.
        layout = self._backend.encode_batch(list(texts), parallel=False).layout
        offsets: npt.NDArray[np.int64] = np.asarray(layout.offsets.data, np.int64)
        ids: Ids = np.asarray(layout.content.data, np.uint32)[offsets[0] : offsets[-1]]
        return ids, offsets[1:] - offsets[0]

    def _is_worn(self) -> bool:
        if self._text_seen < TEXT_LIMIT_UNSEEN // 4:
            return False  # too little text to have grown by much
        size = resident_bytes()
        if size is None or self._size_when_built is None:
            return self._text_seen >= TEXT_LIMIT_UNSEEN
        return size - self._size_when_built > GROWTH_LIMIT or self._text_seen >= TEXT_LIMIT


def resident_bytes() -> int | None:
    """Memory this process holds now; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            pages = int(statm.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
