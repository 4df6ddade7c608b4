"""Bytes that are not those of the manifest: what is noticed, and how it is said."""

import inspect
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import xxhash
from click.testing import CliRunner
from formats.our_files import write_ours

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.errors import CorruptShardError, FormatError, TruncatedShardError

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
    """The end that moved is in order, and inside its shard: only its hash shows it."""
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


@pytest.mark.parametrize("size", [0, 8, 32])
def test_an_index_that_is_cut_after_it_was_opened_is_named(tmp_path, size):
    folder = write_ours(tmp_path / "d", {"train": [[1] * 50] * 5}, 1000)
    data = tokenmill.open(folder)
    os.truncate(folder / "train" / "shard_00000.ends", size)

    with pytest.raises(TruncatedShardError, match=rf"\.ends is {size} bytes; .* promises 40"):
        data.document(0)


def test_an_index_that_goes_back_names_the_entry(tmp_path):
    """Entries may be equal: a document may be empty."""
    folder = write_ours(tmp_path / "d", {"train": [[1] * 50] * 5}, 1000)
    np.array([50, 100, 100, 90, 250], "<u8").tofile(folder / "train" / "shard_00000.ends")

    with pytest.raises(CorruptShardError, match=r"goes back at entry 3: 90"):
        tokenmill.open(folder).document(0)


class TestVerify:
    """open(..., verify=True): a shard is compared with its hash when it is first touched."""

    @pytest.fixture
    def folder(self, tmp_path):
        return write_ours(tmp_path / "d", {"train": [[1] * 20, [2] * 20]}, 10)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_a_flipped_byte_is_refused_at_the_first_touch_of_its_shard(self, folder, backend):
        before = flip(folder / "train" / "shard_00002.bin", at=3)
        data = tokenmill.open(folder, backend=backend, verify=True)

        assert data.tokens(0, 20).tolist() == [1] * 20
        for touch in (lambda: data.tokens(19, 22), lambda: data.array(2)):
            with pytest.raises(CorruptShardError, match=rf"shard_00002\.bin.*{before}") as caught:
                touch()
        assert "fetch it again" in caught.value.hint

    def test_two_shards_that_were_swapped_are_refused(self, folder):
        one, other = (folder / "train" / f"shard_{i:05d}.bin" for i in (0, 3))
        one_was, other_was = one.read_bytes(), other.read_bytes()
        one.write_bytes(other_was)
        other.write_bytes(one_was)

        data = tokenmill.open(folder, verify=True)

        with pytest.raises(CorruptShardError, match=r"shard_0000[03]\.bin"):
            next(tokenmill.BatchLoader(data, batch_size=1, block_size=39))

    def test_a_file_that_took_the_place_of_another_is_compared_again(self, folder):
        data = tokenmill.open(folder, backend="pread", verify=True)
        data._reader._descriptors._size = 1
        data.tokens(0, 40)
        new = folder / "train" / "new"
        new.write_bytes(b"\0" * 20)
        os.replace(new, folder / "train" / "shard_00001.bin")

        with pytest.raises(CorruptShardError, match=r"shard_00001\.bin"):
            data.tokens(0, 40)

    def test_a_copy_in_another_process_and_a_part_verify_too(self, folder):
        data = tokenmill.open(folder, verify=True)
        flip(folder / "train" / "shard_00001.bin")

        for other in (pickle.loads(pickle.dumps(data)), data.of_files(data.files[:2], "train")):
            with pytest.raises(CorruptShardError, match=r"shard_00001\.bin"):
                other.tokens(0, 20)

    def test_it_is_refused_for_files_without_hashes(self):
        llmc = Path(__file__).parents[1] / "data" / "llmc"

        with pytest.raises(ValueError, match=r"verify=True needs a manifest.*llmc"):
            tokenmill.open(llmc, verify=True)

    def test_it_is_off_unless_asked_for(self, folder):
        flip(folder / "train" / "shard_00000.bin")

        assert tokenmill.open(folder).tokens(0, 40)[0] != 1
        assert inspect.signature(tokenmill.open).parameters["verify"].default is None


class TestTokenizerState:
    """The stored tokenizer is compared with its hash, or at least named when it cannot be read."""

    @pytest.mark.parametrize("at", [0, 30, -20, -1])
    def test_a_damaged_one_is_named_with_its_hash(self, tmp_path, at):
        folder = write_ours(tmp_path / "d", {"train": DOCUMENTS}, 10)
        before = flip(folder / "tokenizer_state.json", at)

        with pytest.raises(CorruptShardError, match=rf"tokenizer_state\.json.*{before}") as caught:
            tokenmill.open(folder).decode([1, 2])
        assert "fetch it again" in caught.value.hint
        assert tokenmill.open(folder).tokens(0, 3).tolist() == [1, 1, 1]

    def test_inspect_and_show_say_the_same(self, tmp_path):
        folder = write_ours(tmp_path / "d", {"train": DOCUMENTS}, 10)
        flip(folder / "tokenizer_state.json", 30)

        for args in (["show", str(folder)], ["inspect", str(folder)]):
            done = CliRunner().invoke(command, args)
            said = done.output + str(done.exception)
            assert "tokenizer_state.json" in said, args
            assert "surrogates" not in said

    @pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"\xff", b'{"kind": "ranks"}'])
    def test_one_without_a_hash_is_named_when_it_cannot_be_read(self, tmp_path, damage):
        (tmp_path / "a.txt").write_text("Hello world")
        tokenmill.pretokenize(tmp_path / "a.txt", tokenizer="gpt2")
        (tmp_path / "a.tokenizer_state.json").write_bytes(damage)

        with pytest.raises(FormatError, match=r"a\.tokenizer_state\.json cannot be read") as caught:
            tokenmill.open(tmp_path / "a.npy").decode([1])
        assert caught.value.hint
