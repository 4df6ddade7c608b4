"""Promise: the first rows come by small ranges, each checked; all batches are those of the disk."""

import itertools
import os

import flat
import numpy as np
import pytest
import xxhash
from small_corpus import files_of
from stores.proxy import Proxy

import tokenmill
from tokenmill.base.histogram import Histogram
from tokenmill.errors import CorruptShardError
from tokenmill.order.blocks import Blocks
from tokenmill.order.spans import whole_rows
from tokenmill.reading.span_reader import SpanReader
from tokenmill.stores import objects
from tokenmill.stores.store_reader import AheadReader, FetchAhead

MIB = 1 << 20
_made = {}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    words = np.random.default_rng(3).integers(97, 123, (40_000, 150), dtype=np.uint8)
    words[:, -1] = 10
    (folder / "corpus.txt").write_bytes(words.tobytes())
    return folder


@pytest.fixture
def dataset(corpus, bucket):
    """Three shards of 4 MB in a bucket, and the same on a disk."""
    settings = {"tokenizer": "bytes", "tokens_per_shard": 2_000_000, "dedup": "none", "workers": 1}
    if corpus not in _made:
        flat.prepare(corpus / "corpus.txt", corpus / "disk", val_fraction=0, **settings)
        work = corpus / "work"
        address = f"{bucket}/data"
        flat.prepare(corpus / "corpus.txt", address, work_dir=work, val_fraction=0, **settings)
        _made[corpus] = address
    return _made[corpus], corpus / "disk"


def blocks_file(address):
    (found,) = [path for path in objects.list_below(address) if "/block_hashes-" in path]
    return found


def batches(data, count=None, **options):
    options = {"batch_size": 8, "block_size": 512, "seed": 7, "epochs": 1, **options}
    loader = tokenmill.BatchLoader(data, **options)
    found = [batch.tokens.copy() for batch in itertools.islice(loader, count)]
    loader.close()
    return found


def block_of(request):
    """The shard and the block that a request asks for; None for other requests."""
    asked = dict(request.headers).get(b"range", b"").decode().removeprefix("bytes=")
    if request.method != "GET" or not asked or "shard_" not in request.path:
        return None
    return int(request.path.partition("shard_")[2][:5]), int(asked.split("-")[0]) // MIB


def test_the_hashes_of_blocks_are_those_of_the_bytes(dataset):
    address, folder = dataset
    expected = b"tokenmill-blocks"
    for path in sorted((folder / "train").glob("*.bin")):
        data = path.read_bytes()
        expected += xxhash.xxh3_128_digest(data)
        for start in range(0, len(data), MIB):
            expected += xxhash.xxh3_64_intdigest(data[start : start + MIB]).to_bytes(8, "little")

    assert objects.read_all(blocks_file(address), at_most=MIB) == expected


def test_the_first_batch_waits_for_its_own_blocks_alone(
    dataset, moto_port, endpoint, impatient, tmp_path
):
    """No other block ever arrives, and so no whole shard."""
    address, folder = dataset
    loader = tokenmill.BatchLoader(tokenmill.open(folder), batch_size=2, block_size=512, seed=7)
    first = next(loader)
    loader.close()
    edges = np.concatenate([first.starts, first.starts + 512]).tolist()
    blocks = {(at // 2_000_000, at % 2_000_000 * 2 // MIB) for at in edges}
    assert len(blocks) < 6  # of twelve

    def faults(request):
        return "503" if block_of(request) not in {None, *blocks} else None

    with Proxy(moto_port, faults) as proxy:
        endpoint(proxy.address)
        (found,) = batches(tokenmill.open(address, cache_dir=tmp_path), 1, batch_size=2)
        endpoint()

    np.testing.assert_array_equal(found, first.tokens)


def copy_of(address, bucket):
    """Other objects: what other tests still fetch in the background is not counted."""
    for path in objects.list_below(address):
        data = objects.read_all(path, at_most=1 << 30)
        objects.put(f"{bucket}/copy{path.removeprefix(address)}", data)
    return f"{bucket}/copy"


def test_a_few_tokens_cost_one_block(dataset, bucket, moto_port, endpoint, tmp_path):
    address, folder = dataset
    address = copy_of(address, bucket)
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        data = tokenmill.open(address, cache_dir=tmp_path)
        np.testing.assert_array_equal(
            data[3_000_000:3_000_100], tokenmill.open(folder)[3_000_000:3_000_100]
        )
        reads = [r for r in proxy.requests if "copy/train/shard_" in r.path and r.method == "GET"]
        endpoint()

    assert [dict(r.headers)[b"range"] for r in reads] == [b"bytes=1048576-2097151"]


@pytest.mark.parametrize("order", ["shuffle", "sequential", "blocks"])
@pytest.mark.parametrize("shards", [1.5, 5])
def test_all_batches_are_those_of_the_disk(dataset, tmp_path, order, shards):
    address, folder = dataset
    data = tokenmill.open(address, cache_dir=tmp_path, cache_bytes=int(shards * 4_000_000))
    order = Blocks(64, 2) if order == "blocks" else order

    found = batches(data, 150, order=order)

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), 150, order=order))
    assert sum(entry.stat().st_size for entry in os.scandir(tmp_path)) <= shards * 4_000_000


@pytest.mark.parametrize("fault", ["flip", "cut", "503", "whole"])
def test_a_wrong_block_is_noticed(dataset, moto_port, endpoint, repeats, tmp_path, fault):
    """Every fourth block is wrong when it is first asked for, and right when it is again."""
    address, folder = dataset
    asked = []

    def faults(request):
        block = block_of(request)
        if block is None or block in asked:
            return None
        asked.append(block)
        return fault if len(asked) % 4 == 1 else None

    with Proxy(moto_port, faults) as proxy:
        endpoint(proxy.address)
        found = batches(tokenmill.open(address, cache_dir=tmp_path), 4)
        endpoint()

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), 4))


@pytest.mark.parametrize(
    ("kind", "damaged"), [("plain", "shard_"), ("plain", "block_hashes-"), ("packed", "shard_")]
)
def test_many_damaged_answers_in_a_row_are_no_damaged_block(
    dataset, bucket, moto_port, endpoint, repeats, tmp_path, kind, damaged
):
    """After the first one every range is read twice, by itself, until both are the same."""
    _, folder = dataset
    address = f"{bucket}/data"
    if kind == "packed":
        tokenmill.convert(folder, tmp_path / "packed", compress="zstd:1")
        for name, content in files_of(tmp_path / "packed").items():
            objects.put(f"{address}/{name}", content)
    else:
        address = copy_of(dataset[0], bucket)
    flipped = []

    def faults(request):
        is_damaged = request.method == "GET" and damaged in request.path and len(flipped) < 7
        return flipped.append(request) or "flip" if is_damaged else None

    with Proxy(moto_port, faults) as proxy:
        endpoint(proxy.address)
        found = tokenmill.open(address, cache_dir=tmp_path / "cache")[600_000:600_010]
        endpoint()

    np.testing.assert_array_equal(found, tokenmill.open(folder)[600_000:600_010])
    assert len(flipped) == 7


def test_a_shard_that_is_damaged_in_the_store_is_never_used(dataset, bucket, tmp_path):
    address, folder = dataset
    copy = f"{bucket}/copy"
    for path in objects.list_below(address):
        data = objects.read_all(path, at_most=1 << 30)
        if path.endswith("shard_00001.bin"):
            data = data[:99] + bytes([data[99] ^ 1]) + data[100:]
        objects.put(f"{copy}{path.removeprefix(address)}", data)
    theirs = tokenmill.open(copy, cache_dir=tmp_path)

    np.testing.assert_array_equal(theirs[:100], tokenmill.open(folder)[:100])
    with pytest.raises(
        CorruptShardError, match=r"shard_00001\.bin, bytes 0 to .* does not match its"
    ):
        theirs[2_000_000:2_000_010]


def copy_with_other_hashes(address, copy, change):
    """Copy a dataset; `change` makes the hashes of its blocks, or leaves them out (None)."""
    for path in objects.list_below(address):
        data = objects.read_all(path, at_most=1 << 30)
        if "/block_hashes-" in path:
            data = change(data)
        if data is not None:
            objects.put(f"{copy}{path.removeprefix(address)}", data)


@pytest.mark.parametrize("broken", ["missing", "of another dataset"])
def test_without_hashes_of_blocks_shards_are_read_whole(dataset, bucket, tmp_path, broken):
    address, folder = dataset
    copy_with_other_hashes(
        address,
        f"{bucket}/copy",
        lambda data: None if broken == "missing" else data[:16] + bytes(len(data) - 16),
    )

    theirs = tokenmill.open(f"{bucket}/copy", cache_dir=tmp_path)

    np.testing.assert_array_equal(theirs[5:20], tokenmill.open(folder)[5:20])
    np.testing.assert_array_equal(batches(theirs, 3), batches(tokenmill.open(folder), 3))


def test_a_damaged_hash_of_a_block_is_an_error_that_names_the_block(dataset, bucket, tmp_path):
    address, folder = dataset
    copy_with_other_hashes(
        address, f"{bucket}/copy", lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:]
    )

    theirs = tokenmill.open(f"{bucket}/copy", cache_dir=tmp_path)

    np.testing.assert_array_equal(theirs[5:20], tokenmill.open(folder)[5:20])
    with pytest.raises(CorruptShardError, match=r"shard_00000\.bin, bytes 1,048,576 to 2,097,152"):
        theirs[600_000:600_010]


def test_a_file_without_any_hash_is_read_by_range_too(bucket, moto_port, endpoint, tmp_path):
    ids = np.random.default_rng(1).integers(0, 60_000, 3_000_000).astype("<u2")
    objects.put(f"{bucket}/ids.bin", ids.tobytes())
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        data = tokenmill.open(f"{bucket}/ids.bin", dtype="uint16", cache_dir=tmp_path)
        proxy.requests.clear()
        np.testing.assert_array_equal(data[1_000_000:1_000_500], ids[1_000_000:1_000_500])
        (asked,) = ranges(proxy, "ids.bin").values()
        endpoint()

    # The block, and again in other pieces, since neither TLS nor a hash protects it.
    assert all(MIB - 1 <= start < stop <= 2 * MIB + 2 for start, stop in asked)


def test_what_is_added_has_hashes_of_its_blocks(dataset, corpus, bucket, tmp_path):
    settings = {"tokenizer": "bytes", "tokens_per_shard": 1_000_000, "dedup": "none", "workers": 1}
    (tmp_path / "a.txt").write_bytes((corpus / "corpus.txt").read_bytes()[:1_500_000])
    (tmp_path / "b.txt").write_bytes((corpus / "corpus.txt").read_bytes()[1_500_000:3_000_000])
    address, work = f"{bucket}/data", tmp_path / "w"
    flat.prepare(tmp_path / "a.txt", address, work_dir=work, val_fraction=0.3, **settings)
    first = objects.read_all(blocks_file(address), at_most=MIB)

    flat.prepare(tmp_path / "b.txt", address, work_dir=work, append=True, workers=1)

    both = [path for path in objects.list_below(address) if "/block_hashes-" in path]
    assert len(both) == 2  # readers of the old manifest find theirs
    longer = max((objects.read_all(path, at_most=MIB) for path in both), key=len)
    assert len(longer) > len(first)
    found = tokenmill.open(address, split="all", cache_dir=tmp_path / "cache")
    files = [file for file in found.files if file.blocks is not None]
    assert len(files) == len(found.files)


def test_what_is_added_or_replaced_reads_as_on_a_disk(corpus, bucket, tmp_path):
    settings = {"tokenizer": "bytes", "tokens_per_shard": 300_000, "dedup": "none", "workers": 1}
    (tmp_path / "a.txt").write_bytes((corpus / "corpus.txt").read_bytes()[:1_500_000])
    (tmp_path / "b.txt").write_bytes((corpus / "corpus.txt").read_bytes()[1_500_000:2_000_000])
    address, work, folder = f"{bucket}/added", tmp_path / "w", tmp_path / "plain"
    flat.prepare(tmp_path / "a.txt", folder, val_fraction=0.3, **settings)
    flat.prepare(tmp_path / "b.txt", folder, append=True, workers=1)
    flat.prepare(tmp_path / "a.txt", address, work_dir=work, val_fraction=0.3, **settings)
    flat.prepare(tmp_path / "b.txt", address, work_dir=work, append=True, workers=1)

    for split in ("train", "val"):
        theirs, ours = (
            tokenmill.open(address, split, cache_dir=tmp_path),
            tokenmill.open(folder, split),
        )
        assert theirs.fingerprint == ours.fingerprint
        assert all(file.blocks() is not None for file in theirs.files)
        np.testing.assert_array_equal(theirs[5:20], ours[5:20])
        np.testing.assert_array_equal(batches(theirs, 2), batches(ours, 2))

    flat.prepare(
        tmp_path / "b.txt", address, work_dir=work, overwrite=True, val_fraction=0.0, **settings
    )

    theirs = tokenmill.open(address, cache_dir=tmp_path)
    assert {file.path.split("/")[-3][:2] for file in theirs.files} == {"v-"}
    assert tokenmill.verify(address, full=True).damaged == []
    assert bytes(theirs[:100].astype(np.uint8)) == (tmp_path / "b.txt").read_bytes()[:100]


@pytest.fixture
def over_tls(dataset, moto_port, endpoint, tls, monkeypatch):
    """The same bucket through a proxy with TLS."""
    context, authority = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with Proxy(moto_port, tls=context) as proxy:
        endpoint(proxy.address)
        yield proxy
        endpoint()


def ranges(proxy, part):
    """The ranges that were asked for, by object."""
    found = {}
    for request in proxy.requests:
        asked = dict(request.headers).get(b"range", b"").decode().removeprefix("bytes=")
        if request.method == "GET" and asked and part in request.path:
            first, last = map(int, asked.split("-"))
            found.setdefault(request.path, []).append((first, last + 1))
    return found


def test_where_tls_protects_them_and_it_is_allowed_rows_come_alone(
    dataset, bucket, over_tls, tmp_path
):
    address, folder = dataset
    address = copy_of(address, bucket)
    over_tls.requests.clear()

    data = tokenmill.open(address, cache_dir=tmp_path, cache_bytes=1_000_000, verify=False)
    found = batches(data, 10)
    asked = [one for each in ranges(over_tls, "copy/train/shard_").values() for one in each]

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), 10))
    assert {stop - start for start, stop in asked} == {2 * 513}
    assert not any(path.suffix == ".bin" for path in tmp_path.iterdir())


@pytest.mark.parametrize("verify", [None, True])
def test_whoever_does_not_allow_that_gets_blocks_that_were_compared(
    dataset, bucket, over_tls, tmp_path, verify
):
    address, folder = dataset
    address = copy_of(address, bucket)
    over_tls.requests.clear()
    options = {"cache_dir": tmp_path, "cache_bytes": 1_000_000, "verify": verify}

    found = batches(tokenmill.open(address, **options), 4)
    asked = [one for each in ranges(over_tls, "copy/train/shard_").values() for one in each]

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), 4))
    assert all(start % MIB == 0 for start, _ in asked)


@pytest.mark.parametrize("kind", ["plain", "packed"])
@pytest.mark.parametrize("order", ["shuffle", "blocks", "sequential"])
def test_no_block_of_a_file_is_fetched_twice(
    dataset, bucket, moto_port, endpoint, tmp_path, order, kind
):
    """Neither before its file nor with it; an epoch, with a cache that holds the dataset."""
    address, folder = dataset
    if kind == "packed":
        tokenmill.convert(folder, tmp_path / "packed", compress="zstd:1")
        address = f"{bucket}/copy"
        for name, content in files_of(tmp_path / "packed").items():
            objects.put(f"{address}/{name}", content)
    else:
        address = copy_of(address, bucket)
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        found = batches(tokenmill.open(address, cache_dir=tmp_path / "cache"), order=order)
        endpoint()

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), order=order))
    for asked in ranges(proxy, "copy/train/shard_").values():
        asked.sort()
        assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(asked))


def test_the_first_batch_of_a_compressed_dataset_comes_in_frames(
    dataset, bucket, moto_port, endpoint, tmp_path
):
    _, folder = dataset
    tokenmill.convert(folder, tmp_path / "packed", compress="zstd:1")
    for name, content in files_of(tmp_path / "packed").items():
        objects.put(f"{bucket}/copy/{name}", content)
    # A cache that holds no file: nothing but frames can be used.
    options = {"cache_dir": tmp_path / "cache", "cache_bytes": 1_000_000}
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        data = tokenmill.open(f"{bucket}/copy", **options)
        found = batches(data, 3)
        endpoint()

    np.testing.assert_array_equal(found, batches(tokenmill.open(folder), 3))
    asked = [one for each in ranges(proxy, "copy/train/shard_").values() for one in each]
    assert max(stop - start for start, stop in asked) < MIB


def test_a_damaged_frame_in_a_store_is_never_used(dataset, bucket, tmp_path):
    _, folder = dataset
    tokenmill.convert(folder, tmp_path / "packed", compress="zstd:1")
    for name, content in files_of(tmp_path / "packed").items():
        if name.endswith("shard_00001.bin.zst"):
            content = content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]
        objects.put(f"{bucket}/copy/{name}", content)
    data = tokenmill.open(f"{bucket}/copy", cache_dir=tmp_path / "cache")

    np.testing.assert_array_equal(data[:100], tokenmill.open(folder)[:100])
    with pytest.raises(CorruptShardError, match=r"frame 0 of .*shard_00001\.bin\.zst"):
        data[2_000_000:2_000_010]


@pytest.mark.parametrize(("num_coming", "asked"), [(5, 5), (1000, 32)])
def test_what_comes_is_looked_at_in_time(num_coming, asked):
    """For as many rows as four fetches may take, and again after half of them."""
    looked = []

    class Nothing(SpanReader):
        def read(self, spans, out, continues=None, cells=None):
            pass

    def keys_of(spans):
        looked.append(spans.num_rows)
        return [(int(start),) for start in spans.start]

    reader = AheadReader(Nothing(), FetchAhead(lambda number: number, 4), keys_of, 4)
    coming = whole_rows(np.arange(num_coming), 10)
    reader.follow(lambda: coming, Histogram())
    for row in range(5):
        reader.read(coming.between(row, row + 1), np.empty((1, 10)))

    assert looked == [asked] * 3
