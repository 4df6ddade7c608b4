"""Bytes that are not those of the manifest: what is noticed, and how it is said."""

import pytest
import xxhash
from formats.our_files import write_ours

import tokenmill
from tokenmill.errors import CorruptShardError

DOCUMENTS = [[1] * 7, [2] * 30, [3] * 3]


def flip(path, at=0, bits=0xFF):
    """Change a byte; give the hash that the file had before."""
    data = bytearray(path.read_bytes())
    before = xxhash.xxh3_128_hexdigest(data)
    data[at] ^= bits
    path.write_bytes(data)
    return before


@pytest.mark.parametrize("shard", [0, 3])
def test_an_index_with_a_flipped_byte_is_refused(tmp_path, shard):
    """The end that moved is in order, and inside its shard: only its hash tells."""
    folder = write_ours(tmp_path / "d", {"train": DOCUMENTS}, 10)
    before = flip(folder / "train" / f"shard_{shard:05d}.ends", bits=0x01)

    with pytest.raises(CorruptShardError, match=rf"shard_{shard:05d}\.ends.*{before}") as caught:
        tokenmill.open(folder).document_ends(0, 40)
    assert "tokenmill verify" in caught.value.hint


def test_a_damaged_index_invents_no_document(tmp_path):
    folder = write_ours(tmp_path / "d", {"train": [[1] * 200]}, 1000)
    flip(folder / "train" / "shard_00000.ends")

    with pytest.raises(CorruptShardError, match=r"shard_00000\.ends"):
        _ = tokenmill.open(folder).num_documents
