"""A file as the hub lists it, its hash, and which files a request means."""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.hashing import Hasher, hash_file
from tokenmill.base.human import one_line
from tokenmill.errors import DownloadError
from tokenmill.shards.manifest import FILE_NAME as MANIFEST

DEFAULT_REPO = "karpathy/fineweb-edu-100B-gpt2-token-shards"
DEFAULT_NUM_SHARDS = 3
OUR_FOLDER = ".tokenmill"  # records and incomplete files, inside the folder of the download
_DIGEST = re.compile("sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")
_SHARD_SUFFIXES = (".bin", ".npy", ".ds")
_HELD_OUT = re.compile(r"(^|[/_.-])(val|valid|validation|test|eval)([/_.-]|$)")


@dataclass(frozen=True)
class HubFile:
    """One file of one commit."""

    path: str
    num_bytes: int
    digest: str
    """`sha256:HEX` of the content (files in LFS), or `git:HEX`, git's own name of the blob."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a file: the fields come from a server or a record."""
        is_size = type(self.num_bytes) is int and self.num_bytes >= 0
        if not (is_size and isinstance(self.path, str) and _DIGEST.fullmatch(self.digest)):
            raise ValueError(f"cannot be a file: {self!r}")

    def hasher(self) -> Hasher:
        """A new hash of the kind that `digest` is."""
        if self.digest.startswith("sha256:"):
            return hashlib.sha256()
        # Git hashes "blob LENGTH\0" before the content.
        return hashlib.sha1(b"blob %d\0" % self.num_bytes, usedforsecurity=False)

    def has_digest(self, content: Path | bytes) -> bool:
        """Return True if `digest` is that of this file, or of these bytes."""
        hasher = self.hasher()
        if isinstance(content, Path):
            hash_file(content, hasher)
        else:
            hasher.update(content)
        return self.digest.endswith(hasher.hexdigest())

    def is_at(self, path: Path) -> bool:
        """Return True if a file of this size and hash is there."""
        is_there = path.is_file() and path.stat().st_size == self.num_bytes
        return is_there and self.has_digest(path)

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it, and as it is recorded."""
        return {"path": self.path, "bytes": self.num_bytes, "digest": self.digest}


def choose(
    files: Sequence[HubFile],
    *,
    shards: int | None = None,
    patterns: Iterable[str] | None = None,
    where: str = "the repository",
) -> list[HubFile]:
    """The files that a request means, in the order of their names.

    With `patterns` every file that matches one of them (`*` also crosses `/`). Without: a tokenmill
    dataset whole; else the first 3 training shards. `shards` gives another number.
    """
    found = sorted(files, key=lambda file: file.path)
    names = [file.path for file in found]
    there = _what_is_there(names)
    if patterns is not None:
        patterns = list(patterns)
        chosen = [f for f in found if any(fnmatch.fnmatchcase(f.path, p) for p in patterns)]
        if not chosen:
            raise DownloadError(f"no file of {where} matches {patterns}", hint=there)
        chosen = chosen[:shards]
    elif MANIFEST in names:
        if shards is not None:
            raise ValueError(
                f"{where} is a tokenmill dataset, whose manifest names all of its shards: it is "
                f"fetched whole, shards={shards} cannot be taken from it"
            )
        chosen = [f for f in found if not f.path.startswith(".")]
    else:
        shard_files = [f for f in found if f.path.endswith(_SHARD_SUFFIXES)]
        training = [f for f in shard_files if not _HELD_OUT.search(f.path)]
        chosen = training[: shards or DEFAULT_NUM_SHARDS]
        if not chosen:
            raise DownloadError(f"{where} holds no token shards", hint=there)
        if shards is not None and len(chosen) < shards:
            raise DownloadError(f"{where} holds {len(chosen)} training shards, not {shards}")
    for file in chosen:
        # No name may lead out of the folder or into our own records.
        parts = file.path.split("/")
        bad = any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
        odd = not file.path.isprintable() or {*"\\:"} & {*file.path}
        if bad or odd or parts[0] == OUR_FOLDER:
            raise DownloadError(
                f"the repository lists a file named {file.path!r}, which is not a safe name"
            )
    return chosen


def _what_is_there(names: list[str]) -> str:
    if not names:
        return "it holds no files at all"
    some = ", ".join(map(one_line, names[:5]))
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return f"it holds {some}{more}; choose with patterns="
