"""A compressed dataset is the plain one in fewer bytes: same batches, states and fingerprint."""

import itertools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import flat
import numpy as np
import pytest
from preparation.oracle import hashes_of_files
from preparation.runs import run
from small_corpus import write_corpus
from system_faults import RENAMES, injecting, needs_strace, small_disk

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.batches.id_check import IdCheck
from tokenmill.errors import CorruptShardError, FormatError, TokenmillError, TruncatedShardError
from tokenmill.order.blocks import Blocks
from tokenmill.order.order import ANYWHERE
from tokenmill.order.spans import whole_rows
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.verify import verify

ORDERS = ["shuffle", "sequential", "blocks", "random", Blocks(4, 3)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def both(corpus, tmp_path_factory):
    """A plain dataset of 20 shards or so, and the same compressed."""
    folder = tmp_path_factory.mktemp("both")
    for name, more in (("plain", {}), ("packed", {"compress": "zstd:1"})):
        flat.prepare(
            corpus,
            folder / name,
            tokenizer="bytes",
            tokens_per_shard=9_000,
            dedup="none",
            workers=1,
            **more,
        )
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """One split in shards of 2.5 frames each, compressed by the writer of conversions."""
    folder = tmp_path_factory.mktemp("large")
    ids = np.random.default_rng(0).integers(0, 256, 3_000_000).astype(np.uint16)
    ids[999::1000] = 256
    np.save(folder / "ids.npy", ids)
    tokenmill.convert(
        folder / "ids.npy",
        folder / "packed",
        to="tokenmill",
        tokenizer="bytes",
        end_of_text=256,
        tokens_per_shard=1_300_000,
        compress="zstd:1",
    )
    return folder


@pytest.fixture
def packed(both, tmp_path):
    """A copy that may be damaged."""
    shutil.copytree(both / "packed", tmp_path / "packed")
    return tmp_path / "packed"


def loaders(both, cache, **options):
    plain = tokenmill.open(both / "plain")
    packed = tokenmill.open(both / "packed", cache_dir=cache)
    return [
        tokenmill.BatchLoader(data, batch_size=4, block_size=64, seed=3, **options)
        for data in (plain, packed)
    ]


def test_identity_and_contents_are_those_of_the_plain_dataset(both, tmp_path):
    for split in ("train", "val", "all"):
        plain = tokenmill.open(both / "plain", split)
        packed = tokenmill.open(both / "packed", split, cache_dir=tmp_path)
        assert packed.fingerprint == plain.fingerprint
        assert packed.num_documents == plain.num_documents
        assert np.array_equal(np.asarray(packed), np.asarray(plain))
        last = plain.num_documents - 1
        assert packed.document(last).tolist() == plain.document(last).tolist()
    assert not os.listdir(tmp_path), "slices and documents need no cache"


def test_files_are_smaller_and_the_manifest_knows_both_sizes(both):
    shards = Manifest.load(both / "packed").splits["train"].shards
    plain = Manifest.load(both / "plain").splits["train"].shards
    for shard, other in zip(shards, plain, strict=True):
        assert (shard.file, shard.num_bytes, shard.xxh3_128) == (
            other.file,
            other.num_bytes,
            other.xxh3_128,
        )
        assert shard.packed.file == other.file + ".zst"
        assert (both / "packed" / shard.packed.file).stat().st_size == shard.packed.num_bytes
        assert not (both / "packed" / shard.file).exists()
    assert sum(s.packed.num_bytes for s in shards) < 0.8 * sum(s.num_bytes for s in shards)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("documents", [False, True])
def test_batches_and_states_are_equal_in_every_order(both, tmp_path, order, documents):
    plain, packed = loaders(both, tmp_path, order=order, documents=documents)
    for _ in range(plain._run.order.sources[0].samples_per_epoch // 4 + 20):
        expected, found = next(plain), next(packed)
        assert np.array_equal(found.tokens, expected.tokens)
        if documents:
            assert np.array_equal(found.document_ids, expected.document_ids)
    assert packed.state_dict() == plain.state_dict()
    plain.load_state_dict(packed.state_dict())
    assert np.array_equal(next(plain).tokens, next(packed).tokens)


@pytest.mark.parametrize("order", ["sequential", "blocks"])
def test_orders_that_stay_in_one_place_write_no_cache(both, tmp_path, order):
    _, packed = loaders(both, tmp_path / "none", order=order)
    for _ in range(50):
        next(packed)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("order", ["sequential", "shuffle"])
def test_rows_over_the_edges_of_frames_and_shards(large, tmp_path, order):
    ids = np.load(large / "ids.npy")
    data = tokenmill.open(large / "packed", cache_dir=tmp_path)
    loader = tokenmill.BatchLoader(data, batch_size=16, block_size=9_973, order=order, epochs=1)
    for batch in loader:
        for start, row in zip(batch.starts, batch.tokens, strict=True):
            assert np.array_equal(row, ids[start : start + 9_974])
    part = data.part(400_000, 2_900_001)
    in_part = tokenmill.BatchLoader(part, batch_size=3, block_size=9_973, order=order, epochs=1)
    for batch in in_part:
        for start, row in zip(batch.starts, batch.tokens, strict=True):
            assert np.array_equal(row, ids[400_000 + start : 400_000 + start + 9_974])


def test_a_loader_and_its_data_travel_to_another_process(both, tmp_path):
    plain, packed = loaders(both, tmp_path)
    copy = pickle.loads(pickle.dumps(packed))
    assert np.array_equal(next(copy).tokens, next(plain).tokens)
    windows = loaders(both, tmp_path, order="sequential")[1].windows()
    assert windows[5].tolist() == tokenmill.open(both / "plain")[320:385].tolist()


READ = """
import sys, tokenmill
data = tokenmill.open(sys.argv[1], cache_dir=sys.argv[2], cache_bytes=int(sys.argv[3]))
loader = tokenmill.BatchLoader(data, batch_size=4, block_size=64, seed=int(sys.argv[4]))
print(sum(int(next(loader).tokens.sum()) for _ in range(60)))
"""


def test_processes_share_a_cache_that_is_smaller_than_the_dataset(both, tmp_path):
    """With room for 4 shards of 20, and four processes that read in different orders."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", READ, both / "packed", tmp_path, "80000", str(seed)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    for seed, process in enumerate(runs):
        plain = tokenmill.BatchLoader(
            tokenmill.open(both / "plain"), batch_size=4, block_size=64, seed=seed
        )
        expected = sum(int(next(plain).tokens.sum()) for _ in range(60))
        output, _ = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, f"{expected}\n")
    kept = [path for path in tmp_path.iterdir() if path.suffix == ".bin"]
    assert len(kept) <= 4 + len(runs)  # whoever makes room does not see files of the same moment
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_a_cache_that_is_too_small_for_the_order_is_reported(both, tmp_path, caplog):
    data = tokenmill.open(both / "packed", cache_dir=tmp_path, cache_bytes=40_000)
    tokenmill.BatchLoader(data, block_size=64, order="blocks")
    assert not caplog.messages
    tokenmill.BatchLoader(data, block_size=64)
    assert "the cache holds 40000" in caplog.text


def test_inspect_says_what_compression_saves(both):
    plain, packed = (tokenmill.inspect(both / name).to_json() for name in ("plain", "packed"))
    assert packed["details"].pop("compressed").endswith("of the plain size")
    assert packed["made"]["settings"].pop("compress") == "zstd:1"
    different = {"path", "made"}
    assert {k: v for k, v in packed.items() if k not in different} == {
        k: v for k, v in plain.items() if k not in different
    }


def test_verify_says_of_compressed_shards_what_it_says_of_plain_ones(both):
    assert tokenmill.verify(both / "packed").traps == tokenmill.verify(both / "plain").traps


def test_shards_that_end_with_a_frame_are_read_to_their_end(tmp_path):
    ids = np.random.default_rng(1).integers(0, 256, 2_097_152).astype(np.uint16)
    np.save(tmp_path / "ids.npy", ids)
    options = {"tokenizer": "bytes", "tokens_per_shard": 1_048_576, "allow_lost_documents": True}
    tokenmill.convert(
        tmp_path / "ids.npy", tmp_path / "packed", to="tokenmill", compress="zstd:1", **options
    )

    data = tokenmill.open(tmp_path / "packed", "all")

    for stop in (524_288, 1_048_576, 2_097_152):
        assert np.array_equal(data[stop - 5 : stop], ids[stop - 5 : stop])


def test_what_does_not_fit_into_the_cache_is_held_in_memory(large, tmp_path):
    data = tokenmill.open(large / "packed", "all", cache_dir=tmp_path, cache_bytes=1 << 20)
    reader = data.span_reader(ANYWHERE, IdCheck(data, BatchForm(dtype="uint16")))
    starts = np.arange(0, 3_000_000, 100_000)
    rows = np.empty((len(starts), 50), np.uint16)

    reader.read(whole_rows(starts, 50), rows)

    ids = np.load(large / "ids.npy")
    assert rows.tolist() == [ids[start : start + 50].tolist() for start in starts]
    assert all(frame in reader for frame in range(7))


def test_a_damaged_file_in_the_cache_is_unpacked_again(both, tmp_path):
    plain, packed = loaders(both, tmp_path)
    next(packed)
    packed.close()
    for path in list(tmp_path.iterdir()):  # replaced: writing to a mapped file may kill the reader
        other = path.with_suffix(".other")
        other.write_bytes(bytes(path.stat().st_size))
        other.replace(path)
    _, again = loaders(both, tmp_path)
    assert np.array_equal(next(again).tokens, next(plain).tokens)


def first_shard(folder: Path, suffix: str = ".bin.zst") -> Path:
    return sorted(folder.glob(f"train/*{suffix}"))[0]


@pytest.mark.parametrize("order", ["shuffle", "sequential"])
def test_a_damaged_frame_is_an_error_that_names_file_and_frame(packed, tmp_path, order):
    for path in packed.glob("train/*.bin.zst"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    loader = tokenmill.BatchLoader(
        tokenmill.open(packed, cache_dir=tmp_path / "cache"),
        batch_size=2,
        block_size=64,
        order=order,
    )
    with pytest.raises(CorruptShardError, match=r"shard_000\d\d\.bin\.zst"):
        next(loader)
    found = verify(packed, full=True)
    assert {finding.what for finding in found} == {"frame"}
    assert "frame 0 of" in found[0].found
    assert len(found) == len(list(packed.glob("train/*.bin.zst")))


def test_a_truncated_file_is_refused_when_the_dataset_is_opened(packed):
    path = first_shard(packed)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(TruncatedShardError, match=path.name):
        tokenmill.open(packed)
    assert [finding.what for finding in verify(packed)] == ["size"]


def test_a_damaged_index_is_noticed(packed, tmp_path):
    path = first_shard(packed, ".ends.zst")
    data = bytearray(path.read_bytes())
    data[6] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorruptShardError, match=path.name):
        tokenmill.open(packed).document(0)
    assert [finding.file for finding in verify(packed, full=True)] == [f"train/{path.name}"]


def test_frames_of_other_tokens_are_noticed_by_the_hash_of_the_tokens(packed, tmp_path):
    """Sound frames under the right name, and a manifest that was not changed."""
    from tokenmill.reading.frames import FrameWriter

    shard = Manifest.load(packed).splits["train"].shards[0]
    with open(packed / shard.packed.file, "wb") as file:
        writer = FrameWriter(file, 1)
        writer.write(bytes(shard.num_bytes))
        writer.finish()
        file.write(bytes(shard.packed.num_bytes - file.tell()))
    with pytest.raises((CorruptShardError, FormatError), match="shard_00000"):
        tokenmill.open(packed, cache_dir=tmp_path, verify=True)[0:10]


def test_a_full_cache_folder_is_explained(both, tmp_path):
    with small_disk(tmp_path / "disk", 64 << 10) as disk:
        _, packed = loaders(both, disk.path / "cache")
        with pytest.raises(TokenmillError, match=r"no room for .* in the cache") as caught:
            list(itertools.islice(packed, 200))
        assert "cache_dir" in caught.value.hint
        assert next(loaders(both, disk.path / "cache", order="sequential")[1]) is not None


def test_a_read_only_cache_folder_is_explained(both, tmp_path):
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk.path)], check=True)
        _, packed = loaders(both, disk.path / "cache")
        with pytest.raises(
            TokenmillError, match=r"cannot write to the cache .* Read-only"
        ) as caught:
            next(packed)
    assert "cache_dir" in caught.value.hint


@pytest.mark.parametrize("place", ["cache", "cache/inside"])
def test_a_cache_folder_that_is_a_file_is_explained(both, tmp_path, place):
    (tmp_path / "cache").write_text("not a folder")
    _, packed = loaders(both, tmp_path / place)

    with pytest.raises(TokenmillError, match=rf"cannot write to the cache .*{place}: ") as caught:
        next(packed)

    assert "cache_dir" in caught.value.hint


def test_workers_and_units_do_not_change_a_byte(corpus, tmp_path):
    files = []
    for name, more in (("a", {"workers": 1}), ("b", {"workers": 3, "unit_bytes": 5_000})):
        flat.prepare(
            corpus,
            tmp_path / name,
            tokenizer="bytes",
            tokens_per_shard=9_000,
            compress="zstd",
            **more,
        )
        paths = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        files.append([(path.relative_to(tmp_path / name), path.read_bytes()) for path in paths])
    assert files[0] == files[1]


@needs_strace
def test_a_preparation_that_is_killed_resumes_to_the_same_bytes(corpus, tmp_path):
    arguments = {
        "inputs": corpus,
        "tokenizer": "bytes",
        "tokens_per_shard": 30_000,
        "compress": "zstd:1",
        "workers": 1,
    }
    flat.prepare(out_dir=tmp_path / "whole", **arguments)
    arguments["out_dir"] = tmp_path / "killed"
    for number in (9, 14):
        code, _ = run(arguments, injecting(f"signal=SIGKILL:when={number}", RENAMES))
        assert code == -signal.SIGKILL
    assert run(arguments) == (0, "")
    assert hashes_of_files(tmp_path / "killed") == hashes_of_files(tmp_path / "whole")


@pytest.mark.parametrize("dedup", ["lines", "documents"])
def test_adding_to_a_compressed_dataset_gives_what_adding_to_a_plain_one_gives(tmp_path, dedup):
    first = write_corpus(tmp_path / "first", seed=1, documents=60)
    second = [*write_corpus(tmp_path / "second", seed=2, documents=60), *first[:1]]
    options = {"tokenizer": "bytes", "tokens_per_shard": 5_000, "dedup": dedup, "workers": 1}
    for name, more in (("plain", {}), ("packed", {"compress": "zstd:2"})):
        flat.prepare(first, tmp_path / name, **options, **more)
        flat.prepare(second, tmp_path / name, append=True, workers=1)
    plain, packed = (tokenmill.open(tmp_path / name, "all") for name in ("plain", "packed"))

    assert packed.fingerprint == plain.fingerprint
    assert np.array_equal(np.asarray(packed), np.asarray(plain))
    assert not list((tmp_path / "packed").rglob("*.bin")), "what is added is compressed as well"
    assert verify(tmp_path / "packed", full=True) == []


def test_compressed_and_plain_shards_in_one_dataset(tmp_path):
    first = write_corpus(tmp_path / "first", seed=1, documents=60)
    second = write_corpus(tmp_path / "second", seed=2, documents=60)
    options = {"tokenizer": "bytes", "tokens_per_shard": 5_000, "dedup": "none", "workers": 1}
    for name in ("plain", "mixed"):
        flat.prepare(first, tmp_path / name, **options)
    flat.prepare(second, tmp_path / "plain", append=True, workers=1)
    flat.prepare(second, tmp_path / "mixed", append=True, compress="zstd", workers=1)

    assert verify(tmp_path / "mixed", full=True) == []
    for order in ORDERS:
        plain, mixed = (
            tokenmill.BatchLoader(
                tokenmill.open(tmp_path / name), batch_size=4, block_size=64, order=order, epochs=1
            )
            for name in ("plain", "mixed")
        )
        assert mixed.state_dict() == plain.state_dict()
        for expected, found in zip(plain, mixed, strict=True):
            assert np.array_equal(found.tokens, expected.tokens)


@pytest.mark.parametrize("wrong", ["gzip", "zstd:0", "zstd:23", "zstd:", "zstd:fast", ""])
def test_an_unknown_compression_is_refused(corpus, tmp_path, wrong):
    with pytest.raises(ValueError, match="compress is"):
        flat.prepare(corpus, tmp_path / "out", compress=wrong)
    assert not (tmp_path / "out").exists()


def test_threads_of_one_process_may_read_at_once(both, tmp_path):
    plain = np.asarray(tokenmill.open(both / "plain"))
    packed = tokenmill.open(both / "packed", cache_dir=tmp_path)
    wrong = []

    def read(seed):
        for start in np.random.default_rng(seed).integers(0, len(plain) - 500, 100):
            if not np.array_equal(packed[start : start + 500], plain[start : start + 500]):
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compressing_and_unpacking_keep_every_field_of_the_manifest(both, tmp_path):
    for source, target, how in (
        (both / "plain", tmp_path / "packed", {"compress": "zstd:1"}),
        (tmp_path / "packed", tmp_path / "plain", {"decompress": True}),
    ):
        tokenmill.convert(source, target, **how)
    for name in ("plain", "packed"):
        for path in (both / name).rglob("*"):
            if path.is_file() and path.name != "README.md":
                assert (tmp_path / name / path.relative_to(both / name)).read_bytes() == (
                    path.read_bytes()
                )
    readme = (tmp_path / "plain" / "README.md").read_text()
    assert readme == (both / "plain" / "README.md").read_text()
    assert "zstd -d train/shard_00000.bin.zst" in (tmp_path / "packed" / "README.md").read_text()


def test_a_dataset_is_compressed_in_its_place(both, tmp_path):
    shutil.copytree(both / "plain", tmp_path / "data")
    tokenmill.convert(tmp_path / "data", tmp_path / "data", compress="zstd", overwrite=True)
    assert verify(tmp_path / "data", full=True) == []
    assert not list((tmp_path / "data").rglob("*.bin"))


def test_a_damaged_source_is_not_compressed(both, tmp_path):
    shutil.copytree(both / "plain", tmp_path / "data")
    path = tmp_path / "data" / "train" / "shard_00003.bin"
    data = bytearray(path.read_bytes())
    data[77] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError, match="shard_00003"):
        tokenmill.convert(tmp_path / "data", tmp_path / "out", compress="zstd")
    assert sorted(os.listdir(tmp_path)) == ["data"]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, "the format to write is missing"),
        ({"compress": "zstd", "decompress": True}, "exclude each other"),
        ({"to": "megatron", "compress": "zstd"}, "only our own format"),
        ({"compress": "lz4"}, "compress is 'lz4'"),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused_before_anything_is_read(both, tmp_path, how, why):
    with pytest.raises(ValueError, match=why):
        tokenmill.convert(both / "plain", tmp_path / "out", **how)


def test_a_compressed_dataset_is_written_as_any_format(both, tmp_path):
    for name in ("plain", "packed"):
        tokenmill.convert(both / name, tmp_path / name, to="megatron")
    for path in (tmp_path / "plain").iterdir():
        assert (tmp_path / "packed" / path.name).read_bytes() == path.read_bytes()
