"""One object, or one compressed file, and how its bytes are known to be the right ones."""

from typing import NamedTuple

import xxhash

from tokenmill.reading.token_file import Packed, TokenFile


class CachedFile(NamedTuple):
    """What the cache is to hold, and where it comes from."""

    address: str
    size: int
    digest: str
    """The hash of its bytes (xxh3-128); empty where nobody states one."""
    etag: str = ""
    """What the store called this version of the object, where there is no hash."""
    packed: Packed | None = None
    """Where it is compressed there. Size and hash are those of its content."""

    @property
    def name(self) -> str:
        """What it is called in the cache before its bytes are known."""
        return self.digest or xxhash.xxh3_128_hexdigest("\0".join(map(str, self)).encode())

    @property
    def stored_bytes(self) -> int:
        """Size of the object."""
        return self.size if self.packed is None else self.packed.num_bytes


def tokens_of(file: TokenFile) -> CachedFile:
    """The tokens of a file, as the cache is to hold them."""
    digest = "" if file.packed is None else file.packed.content_xxh3_128
    if file.hashes is not None:
        digest = file.hashes.tokens
    return CachedFile(file.path, file.file_bytes, digest, file.etag, file.packed)
