"""Promise: a dataset in a bucket loads like one on disk, through a cache of bounded size."""

import contextlib
import os
import pickle
import subprocess
import sys
import threading

import column_data
import numpy as np
import pytest
import xxhash
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy

import tokenmill
from tokenmill.errors import CorruptShardError, NotADatasetError, TokenmillError
from tokenmill.order.blocks import Blocks
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.shards.manifest import Manifest
from tokenmill.stores import objects

_uploaded = {}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder / "corpus")
    tokenmill.prepare(
        folder / "corpus", folder / "out", tokenizer="bytes", tokens_per_shard=10_000, workers=1
    )
    return folder / "out"


@pytest.fixture
def in_bucket(on_disk, bucket):
    """The same files; uploaded once, and only read after that."""
    if on_disk not in _uploaded:
        copy_to(on_disk, f"{bucket}/data")
        _uploaded[on_disk] = f"{bucket}/data"
    return _uploaded[on_disk]


def copy_to(folder, address):
    for name, data in files_of(folder).items():
        objects.put(f"{address}/{name}", data)


@pytest.fixture
def cache(tmp_path):
    """Room for four shards of the dataset, which has many more."""
    return {"cache_dir": tmp_path / "cache", "cache_bytes": 4 * 20_000}


def used(folder):
    """The bytes of all files, seen twice alike: one that is renamed during a look is seen twice."""
    before, now = None, sizes(folder)
    while now != before:
        before, now = now, sizes(folder)
    return sum(now.values())


def sizes(folder):
    found = {}
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # evicted meanwhile
            found[entry.name] = entry.stat().st_size
    return found


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("order", ["blocks", "sequential"])
def test_batches_equal_those_from_disk_with_a_cache_smaller_than_the_dataset(
    on_disk, in_bucket, cache, order, backend
):
    ours = tokenmill.open(on_disk)
    theirs = tokenmill.open(in_bucket, backend=backend, **cache)
    assert len(ours.shards) > 8
    assert theirs.fingerprint == ours.fingerprint
    options = {"batch_size": 4, "block_size": 64, "seed": 3, "order": order, "epochs": 1}
    if order == "blocks":
        options["order"] = Blocks(64, 2)

    expected = tokenmill.BatchLoader(ours, **options)
    found = tokenmill.BatchLoader(theirs, **options)

    count = 0
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_array_equal(left.tokens, right.tokens)
        assert used(cache["cache_dir"]) <= cache["cache_bytes"]
        count += 1

    assert count == len(expected)
    expected.close()
    found.close()


@pytest.mark.parametrize("options", [{}, {"compress": "zstd:1"}], ids=["plain", "zstd"])
@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_columns_come_with_their_tokens(bucket, cache, tmp_path, options, rows):
    ours = column_data.write(tmp_path / "d", column_data.make_documents(count=60), **options)
    copy_to(tmp_path / "d", f"{bucket}/chat-{rows}-{len(options)}")
    theirs = tokenmill.open(f"{bucket}/chat-{rows}-{len(options)}", **cache)
    loaders = [
        tokenmill.BatchLoader(data, batch_size=2, block_size=50, rows=rows)
        for data in (ours, theirs)
    ]

    assert theirs.fingerprint == ours.fingerprint
    for _ in range(12):
        a, b = (next(loader) for loader in loaders)
        assert (a.labels == b.labels).all()
        for name in ours.columns:
            assert (a.columns[name] == b.columns[name]).all()


def test_documents_text_and_pickles_are_those_of_the_disk(on_disk, in_bucket, cache):
    ours = tokenmill.open(on_disk, split="val")
    theirs = pickle.loads(pickle.dumps(tokenmill.open(in_bucket, split="val", **cache)))

    assert theirs.num_documents == ours.num_documents
    for number in (0, ours.num_documents - 1):
        np.testing.assert_array_equal(theirs.document(number), ours.document(number))
    assert theirs.decode(theirs.document(0)) == ours.decode(ours.document(0))
    np.testing.assert_array_equal(
        theirs.document_ends(0, theirs.num_tokens), ours.document_ends(0, ours.num_tokens)
    )


def test_wrong_answers_give_right_tokens_or_a_typed_error(
    on_disk, in_bucket, tmp_path, moto_port, endpoint, impatient
):
    ours = tokenmill.open(on_disk)
    for fault in ("503", "cut", "flip", "whole"):
        left = [2]

        def faults(request, fault=fault, left=left):
            if request.method == "GET" and ".bin" in request.path and left[0]:
                left[0] -= 1
                return fault
            return None

        with Proxy(moto_port, faults) as proxy:
            endpoint(proxy.address)
            theirs = tokenmill.open(in_bucket, cache_dir=tmp_path / fault)
            np.testing.assert_array_equal(theirs.tokens(0, 25_000), ours.tokens(0, 25_000))
        endpoint()


def test_an_object_that_is_not_what_the_manifest_says_is_never_used(bucket, on_disk, cache):
    in_bucket = f"{bucket}/copy"
    copy_to(on_disk, in_bucket)
    shard = "train/shard_00000.bin"
    damaged = bytearray((on_disk / shard).read_bytes())
    damaged[777] ^= 4
    objects.put(f"{in_bucket}/{shard}", bytes(damaged))
    data = tokenmill.open(in_bucket, **cache)

    with pytest.raises(
        CorruptShardError, match=r"shard_00000\.bin, bytes 0 to .* does not match its"
    ):
        data.tokens(0, 10)
    objects.put(f"{in_bucket}/{shard}", bytes(damaged[:-2]))
    with pytest.raises(TokenmillError, match=r"shard_00000\.bin"):
        data.tokens(0, 10)

    assert not [name for name in os.listdir(cache["cache_dir"]) if not name.endswith(".block")]


def test_an_address_without_a_manifest_is_named(bucket):
    with pytest.raises(NotADatasetError, match=f"there is no {bucket}/nothing/dataset_metadata"):
        Manifest.load(f"{bucket}/nothing")


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(in_bucket, on_disk, cache):
    first = tokenmill.open(in_bucket, **cache)
    expected = first.tokens(0, 5000)
    for entry in os.scandir(cache["cache_dir"]):
        with open(entry.path, "r+b") as file:
            file.seek(100)
            file.write(b"\xff\xff\xff\xff")

    again = tokenmill.open(in_bucket, **cache)

    np.testing.assert_array_equal(again.tokens(0, 5000), expected)


def test_processes_share_a_cache(on_disk, in_bucket, cache):
    code = (
        "import sys, tokenmill, xxhash\n"
        f"data = tokenmill.open({in_bucket!r}, cache_dir={str(cache['cache_dir'])!r},"
        f" cache_bytes={cache['cache_bytes']})\n"
        "print(xxhash.xxh3_64_hexdigest(data.tokens(0, data.num_tokens).tobytes()))"
    )
    source = os.path.join(os.path.dirname(tokenmill.__file__), "..")
    environment = {**os.environ, "PYTHONPATH": source}

    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    found = {process.communicate()[0].strip() for process in started}

    ours = tokenmill.open(on_disk)
    assert found == {xxhash.xxh3_64_hexdigest(ours.tokens(0, ours.num_tokens).tobytes())}
    assert used(cache["cache_dir"]) <= cache["cache_bytes"] + 2 * 20_000


def test_a_forked_process_reads_on_with_a_client_of_its_own(on_disk, in_bucket, cache):
    data = tokenmill.open(in_bucket, **cache)
    expected = tokenmill.open(on_disk)
    np.testing.assert_array_equal(data.tokens(0, 100), expected.tokens(0, 100))
    pid = os.fork()
    if not pid:
        last = data.num_tokens
        same = np.array_equal(data.tokens(last - 100, last), expected.tokens(last - 100, last))
        os._exit(0 if same else 1)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(data.tokens(50_000, 50_100), expected.tokens(50_000, 50_100))


def test_what_is_open_outlives_its_eviction(in_bucket, on_disk, cache):
    data = tokenmill.open(in_bucket, **cache)
    first = data.array(0)
    expected = tokenmill.open(on_disk).array(0)

    for shard in range(1, len(data.shards)):
        data.array(shard)

    np.testing.assert_array_equal(first, expected)


def test_threads_of_one_process_fetch_a_shard_once(in_bucket, moto_port, endpoint, cache):
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        data = tokenmill.open(in_bucket, **cache)
        threads = [threading.Thread(target=data.tokens, args=(0, 100)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reads = [r for r in proxy.requests if r.method == "GET" and "shard_00000.bin" in r.path]
    endpoint()

    assert len(reads) == 1


def test_half_fetched_files_of_the_dead_are_removed_when_room_is_made(in_bucket, cache):
    cache["cache_dir"].mkdir()
    old = cache["cache_dir"] / ".abc.bin.1-2.tmp"
    young = cache["cache_dir"] / ".abc.bin.3-4.tmp"
    old.write_bytes(b"x" * 100)
    young.write_bytes(b"x" * 100)
    os.utime(old, (0, 0))

    tokenmill.open(in_bucket, **cache).tokens(0, 10)

    assert not old.exists()
    assert young.exists()


def test_what_cannot_be_is_refused_in_words(bucket, in_bucket, tmp_path):
    with pytest.raises(NotADatasetError, match=r"there is no object s3://.*, and none below"):
        tokenmill.open(f"{bucket}/nothing")
    with pytest.raises(ValueError, match="cache_bytes=80000"):
        tokenmill.open(in_bucket, cache_dir=tmp_path, cache_bytes=10_000).array(0)
    np.save(tmp_path / "plain.npy", np.arange(9, dtype=np.uint16))
    with pytest.raises(ValueError, match="s3://"):
        tokenmill.open(tmp_path / "plain.npy", cache_bytes=1)
    with pytest.raises(ValueError, match="at least 1"):
        ShardCache(tmp_path, 0)


def test_the_cache_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ShardCache(None, None).folder == tmp_path / "tokenmill" / "shards"


@pytest.mark.parametrize("order", ["shuffle", "sequential", "blocks"])
def test_compressed_shards_are_unpacked_on_the_way(on_disk, bucket, tmp_path, order):
    tokenmill.convert(on_disk, tmp_path / "packed", compress="zstd:1")
    copy_to(tmp_path / "packed", f"{bucket}/packed-{order}")
    plain = tokenmill.open(on_disk)
    data = tokenmill.open(f"{bucket}/packed-{order}", cache_dir=tmp_path / "cache")

    assert data.fingerprint == plain.fingerprint
    loaders = [
        tokenmill.BatchLoader(each, batch_size=4, block_size=32, order=order, documents=True)
        for each in (plain, data)
    ]
    for _ in range(40):
        expected, found = (next(loader) for loader in loaders)
        assert np.array_equal(found.tokens, expected.tokens)
        assert np.array_equal(found.document_ids, expected.document_ids)
    assert loaders[0].state_dict() == loaders[1].state_dict()
