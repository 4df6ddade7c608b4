"""header-as-tokens: the header of a file format among the tokens.

A real `.npy` read as raw uint16 begins with 64 bogus tokens, a shard of llm.c with 512; nothing
crashes, since most of them are valid ids. In the middle of data it means that files were joined.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.formats.engine.detect import FILE_FORMATS
from tokenmill.formats.engine.untrusted import known_head
from tokenmill.look.doctor.token_sample import SplitSample
from tokenmill.look.doctor.trap import Trap

NAME = "header-as-tokens"


def check(sample: SplitSample) -> Iterator[Trap]:
    """At the start of each shard, and in the sample."""
    data = sample.data
    seen = set()
    for i in sample.shards():
        file = data.files[i]
        if file.first or not file.num_tokens or not file.path:
            continue
        head = np.empty(min(64, file.num_tokens), data.dtype)
        data.read_into(i, 0, head)
        if (what := known_head(head.tobytes())) is not None:
            seen.add(int(data.shard_starts[i]))
            yield header_trap(file.path, head.tobytes(), data.dtype.itemsize, what)
    for position, first_bytes in _in_the_middle(sample):
        if position not in seen:
            what = known_head(first_bytes) or "unknown"
            where = f"{sample.split}, token {position:,}"
            yield header_trap(where, first_bytes, data.dtype.itemsize, what)
            return  # one is enough


def header_trap(where: str, first_bytes: bytes, itemsize: int, what: str) -> Trap:
    """The trap of a header with these first bytes."""
    length = header_bytes(first_bytes)
    bogus = "a header" if length is None else f"{length // itemsize:,} bogus tokens"
    first = np.frombuffer(first_bytes[: 6 * itemsize], f"<u{itemsize}").tolist()
    return Trap(
        NAME,
        where,
        f"the header of a {what} file is where tokens should be: {bogus}, {first} ...",
        "open the file without format=, so that its header is respected; if it was copied into "
        "other data, make that again from the original",
    )


def header_bytes(first_bytes: bytes) -> int | None:
    """How long the header is, where its first bytes say it."""
    lengths = (format.header_bytes(first_bytes) for format in FILE_FORMATS.values())
    return next((length for length in lengths if length is not None), None)


def _in_the_middle(sample: SplitSample) -> Iterator[tuple[int, bytes]]:
    """Places in the sample where tokens spell the start of a header."""
    itemsize = sample.data.dtype.itemsize
    if itemsize not in (2, 4):
        return
    marks = [mark for format in FILE_FORMATS.values() for mark in format.header_marks]
    for block in sample.blocks:
        for mark in marks:
            words = np.frombuffer(mark, f"<u{itemsize}")
            hits = block.ids[: len(block.ids) - len(words) + 1] == words[0]
            for offset in range(1, len(words)):
                hits = hits & (block.ids[offset : offset + len(hits)] == words[offset])
            for place in np.flatnonzero(hits).tolist():
                yield block.start + place, block.ids[place : place + 64].tobytes()
