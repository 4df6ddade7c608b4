"""What a preparation did, for people and for `--json`."""

from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmill.shards.manifest import Manifest
from tokenmill.text.inputs.open_input import printable


@dataclass
class Summary:
    """The outcome; `notes` are sentences worth reading."""

    out_dir: str
    documents_in: int
    documents_written: int
    dropped: dict[str, int]
    train_tokens: int
    val_tokens: int
    train_shards: int
    val_shards: int
    bytes_in: int
    lines_dropped: int = 0
    texts_replaced: int = 0
    dtype: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    bad_input: list[str] = field(default_factory=list)
    """The first places of input that was dropped or mended, each with its reason."""
    already_there: bool = False
    """The dataset was finished before: this run wrote nothing."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; a folder whose name is not UTF-8 is escaped, as in messages."""
        return {**asdict(self), "out_dir": printable(self.out_dir)}


def summarize(out_dir: str, manifest: Manifest, notes: list[str]) -> Summary:
    """Read the outcome off the manifest."""
    books = manifest.books
    train, val = (manifest.splits.get(name) for name in ("train", "val"))
    return Summary(
        out_dir=out_dir,
        documents_in=books["documents_in"],
        documents_written=books["documents_written"],
        dropped=dict(books["dropped"]),
        train_tokens=train.tokens if train else 0,
        val_tokens=val.tokens if val else 0,
        train_shards=len(train.shards) if train else 0,
        val_shards=len(val.shards) if val else 0,
        bytes_in=books["bytes_in"],
        lines_dropped=books["lines_dropped"],
        texts_replaced=books["texts_replaced"],
        dtype=manifest.dtype,
        notes=notes,
    )
