"""Hashes of whole files, read block by block."""

import os
from pathlib import Path
from typing import Protocol

import xxhash

BLOCK_BYTES = 1 << 20


class Hasher(Protocol):
    """The part of a hashlib or xxhash object that is used here."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def hash_file(path: Path | str, hasher: Hasher | None = None) -> str:
    """The hash of all bytes, as hex: xxh3-128, or that of the given hasher, which is used up."""
    with open(path, "rb", buffering=0) as file:
        return hash_open(file.fileno(), hasher)


def hash_open(descriptor: int, hasher: Hasher | None = None) -> str:
    """The same of an open file, whatever its position, which does not change."""
    hasher, start = hasher or xxhash.xxh3_128(), 0
    while block := os.pread(descriptor, BLOCK_BYTES, start):
        hasher.update(block)
        start += len(block)
    return hasher.hexdigest()
