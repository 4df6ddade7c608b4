"""The cleaned text of a unit, kept from the first pass over it for the second.

Reading (decompressing, fetching) and cleaning a text costs about as much as encoding it, so where
the disk has room (`space.py`) it is done once. What was kept is not vouched for by a receipt, which
would have to wait for the disk: it is compared with its hash when it is opened, and the source is
read again where it is gone or not what it was.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Self

import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.base.hashing import hash_file
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.reading.bad_input import BadInputPlace
from tokenmill.text.reading.chunks import Chunk, Edge

_BREAK = b"\xff"  # in no UTF-8


class TextKeeper:
    """Writes the chunks of one unit to a file, next to the hashes of its lines."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._hash = xxhash.xxh3_128()
        self._open = ExitStack()
        self._file = self._open.enter_context(new_file(workspace.path("lines", f"{name}.text")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk of the unit."""
        text = _BREAK.join(chunk.texts)
        self._hash.update(text)
        self._file.write(text)
        self._chunks.append(
            {
                "bytes": len(text),
                "texts": len(chunk.texts),
                "continues": chunk.continues.value,
                "open": chunk.open.value,
                "dropped": chunk.dropped,
                "replaced": chunk.replaced,
                "bytes_in": chunk.bytes_in,
                "offset": chunk.offset,
                "places": [list(place) for place in chunk.places],
                "lines": chunk.lines,
            }
        )

    def finish(self) -> dict[str, Any]:
        """Close the file; what must be known to read it again."""
        self._open.close()
        return {"hash": self._hash.hexdigest(), "chunks": self._chunks}


class KeptText:
    """The chunks of one unit as they were kept."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._path = workspace.path("lines", f"{name}.text")
        receipt = workspace.receipt("lines", name) or {}
        self._known: dict[str, Any] | None = receipt.get("kept")

    def is_whole(self) -> bool:
        """Whether it is there, and what it was."""
        if self._known is None:
            return False
        try:
            return hash_file(self._path) == str(self._known["hash"])
        except OSError:
            return False

    def chunks(self, large_bytes: int, on_large: Callable[[bool], None]) -> Iterator[Chunk]:
        """All chunks in order; only if it is whole. The rest is as in `ReadRules`."""
        assert self._known is not None
        with open(self._path, "rb") as file:
            for known in self._known["chunks"]:
                text = b""
                on_large(known["bytes"] > large_bytes)
                text = file.read(known["bytes"])
                yield Chunk(
                    text.split(_BREAK) if known["texts"] else [],
                    Edge(known["continues"]),
                    Edge(known["open"]),
                    known["dropped"],
                    known["replaced"],
                    known["bytes_in"],
                    known["offset"],
                    [BadInputPlace(*place) for place in known["places"]],
                    known["lines"],
                )

    def remove(self) -> None:
        """It has been used."""
        self._path.unlink(missing_ok=True)
