"""Hashes of files are those of their bytes, however large they are."""

import hashlib
import os

import pytest
import xxhash

from tokenmill.base.hashing import BLOCK_BYTES, hash_file, hash_open


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 7])
def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)

    assert hash_file(tmp_path / "file") == xxhash.xxh3_128_hexdigest(data)
    sha256 = hash_file(tmp_path / "file", hashlib.sha256())
    assert sha256 == hashlib.sha256(data).hexdigest()


def test_the_position_of_an_open_file_does_not_matter_and_does_not_change(tmp_path):
    (tmp_path / "file").write_bytes(b"some bytes")

    with (tmp_path / "file").open("rb", buffering=0) as file:
        file.seek(5)
        assert hash_open(file.fileno()) == xxhash.xxh3_128_hexdigest(b"some bytes")
        assert file.tell() == 5
