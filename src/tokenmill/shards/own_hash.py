"""The hash that a manifest has of itself: its last field, over the bytes of all others.

Cut the field out, with the comma before it, and what is left is a manifest without a hash; the hash
is the xxh3-128 of these bytes. So a changed bit is noticed anywhere: in the counts and names, in
settings and accounts, which are only for people, and between them. Manifests that were written
before there was such a field are read as they are.
"""

import xxhash

from tokenmill.errors import FormatError

KEY = "xxh3_128"
_AFTER = b"\n}\n"


def add_hash(data: bytes) -> bytes:
    """The manifest with its hash; `data` is the same without one."""
    return data.removesuffix(_AFTER) + _ending(xxhash.xxh3_128_hexdigest(data))


def check_hash(data: bytes, stated: str, where: str) -> None:
    """Refuse a manifest whose bytes are not those that its hash was made of."""
    ending = _ending(stated)
    found = xxhash.xxh3_128(memoryview(data)[: len(data) - len(ending)])
    found.update(_AFTER)
    if not data.endswith(ending) or found.hexdigest() != stated:
        raise FormatError(
            f"{where} was changed after it was written: its hash is {found.hexdigest()}, but it "
            f"states {stated}",
            hint="fetch this file again, or prepare the dataset again; if it was edited on "
            f'purpose, remove its last field, "{KEY}", with the comma before it',
        )


def _ending(digest: str) -> bytes:
    return f',\n  "{KEY}": "{digest}"'.encode() + _AFTER
