"""Promise: every kind of store keeps the same promises, reached by its usual variables."""

import itertools
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy

import tokenmill
from tokenmill.base.address import split
from tokenmill.errors import DownloadError, NotADatasetError
from tokenmill.pages.report import report
from tokenmill.stores import objects, store_requests

NAMES = ["plain.txt", "folder/a b.txt", "folder/é 中.txt", "folder/50%25#1.txt", "folder2/x"]
OTHERS = Path(__file__).parents[1] / "data"


def test_objects_are_written_listed_read_replaced_and_removed(store_bucket):
    for name in NAMES:
        objects.put(f"{store_bucket}/{name}", name.encode() * 100)

    assert objects.list_below(store_bucket) == sorted(f"{store_bucket}/{name}" for name in NAMES)
    below, folders = objects.list_folder(store_bucket)
    assert ([record.key for record in below], folders) == (["plain.txt"], ["folder", "folder2"])
    assert len(objects.list_below(f"{store_bucket}/folder")) == 3
    for name in NAMES:
        address = f"{store_bucket}/{name}"
        known = objects.stat(address)
        assert objects.read(address, 7, 20, known) == (name.encode() * 100)[7:20]
        objects.put(address, b"other")
        with pytest.raises(DownloadError, match="412"):
            objects.read(address, 2, 4, known)
        objects.delete(address)
        objects.delete(address)
        assert objects.find(address) is None


def test_a_list_names_the_version_that_a_look_at_the_object_names(store_bucket):
    objects.put(f"{store_bucket}/a", b"1")

    (record,) = objects.list_records(store_bucket)

    assert (record.size, record.etag) == (1, objects.stat(f"{store_bucket}/a").etag)


def test_conditions_decide_between_writers(store_bucket):
    address = f"{store_bucket}/manifest"

    assert objects.put(address, b"first", objects.NEW)
    assert not objects.put(address, b"second", objects.NEW)
    seen = objects.stat(address).etag
    assert objects.put(address, b"third", seen)
    assert not objects.put(address, b"fourth", seen)
    assert objects.read_all(address, at_most=10) == b"third"


def test_a_missing_bucket_is_named(store):
    there = f"{store.scheme}://no-such-bucket-here"

    for action in (lambda: objects.put(f"{there}/key", b""), lambda: objects.list_below(there)):
        with pytest.raises(DownloadError, match=r"'no-such-bucket-here'.*: 404 \w+"):
            action()


def test_wrong_credentials_are_said_once_without_showing_them(use_server, monkeypatch):
    server = use_server("azurite")
    address = server.make_bucket("refused")
    wrong = "d3Jvbmcga2V5IHRoYXQgbm9ib2R5IGhhcw=="
    stated = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    key = stated.partition("AccountKey=")[2].partition(";")[0]
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", stated.replace(key, wrong))

    with pytest.raises(DownloadError) as caught:
        objects.list_below(address)

    assert "403 AuthorizationFailure" in str(caught.value)
    assert "AZURE_STORAGE_ACCOUNT_KEY" in str(caught.value)
    assert wrong not in str(caught.value)


def test_a_refusal_without_a_word_has_its_number_once(bucket, moto_port, endpoint, impatient):
    with Proxy(moto_port, lambda request: "403") as proxy:
        endpoint(proxy.address)

        with pytest.raises(DownloadError, match=r"in bucket '[^']*': 403\n\nhint: .*AWS_PROFILE"):
            objects.find(f"{bucket}/key")


def test_a_profile_gives_keys_region_and_endpoint(bucket, moto_port, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text(
        f"[profile lab]\nregion = us-east-1\nendpoint_url = http://127.0.0.1:{moto_port}\n"
    )
    (tmp_path / "keys").write_text("[lab]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_PROFILE", "lab")

    objects.put(f"{bucket}/key", b"value")

    assert objects.read_all(f"{bucket}/key", at_most=9) == b"value"
    monkeypatch.setenv("AWS_PROFILE", "another")
    with pytest.raises(tokenmill.TokenmillError, match="AWS_PROFILE is 'another'"):
        objects.find(f"{bucket}/key")


@pytest.mark.parametrize(
    "address", ["s3://k:s@bucket/x", "https://host/x?sig=secret", "ftp://host/x", "gs:///x"]
)
def test_addresses_that_cannot_be_are_refused_without_their_secrets(address):
    with pytest.raises(ValueError, match="address") as caught:
        split(address)
    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder / "corpus", documents=60)
    tokenmill.prepare(
        folder / "corpus", folder / "out", tokenizer="bytes", tokens_per_shard=10_000, workers=1
    )
    return folder / "out"


def copy_to(folder, address):
    for name, data in files_of(folder).items():
        objects.put(f"{address}/{name}", data)


def batches(data):
    options = {"batch_size": 4, "block_size": 64, "seed": 3, "order": "sequential", "epochs": 1}
    loader = tokenmill.BatchLoader(data, **options)
    found = [batch.tokens for batch in loader]
    loader.close()
    return found


def test_a_dataset_in_each_store_gives_the_batches_of_the_disk(on_disk, store_bucket, tmp_path):
    copy_to(on_disk, f"{store_bucket}/data")

    ours = tokenmill.open(on_disk)
    theirs = tokenmill.open(f"{store_bucket}/data", cache_dir=tmp_path, cache_bytes=60_000)

    assert theirs.fingerprint == ours.fingerprint
    np.testing.assert_array_equal(batches(theirs), batches(ours))
    seen = [tokenmill.inspect(place) for place in (on_disk, f"{store_bucket}/data")]
    assert replace(seen[1], path=seen[0].path) == seen[0]


def test_a_dataset_on_a_plain_web_server(on_disk, use_server, tmp_path):
    server = use_server("gcs")  # it serves its objects to anybody, as a web server does
    bucket = server.make_bucket("public")
    copy_to(on_disk, f"{bucket}/data")
    address = f"http://127.0.0.1:{server.port}/public"

    ours = tokenmill.open(on_disk)
    theirs = tokenmill.open(f"{address}/data", cache_dir=tmp_path)

    np.testing.assert_array_equal(theirs[:], ours[:])
    raw = tokenmill.open(f"{address}/data/train/shard_00000.bin", dtype="uint16")
    np.testing.assert_array_equal(raw[:], ours.array(0))
    with pytest.raises(ValueError, match="can only be read"):
        objects.put(f"{address}/data/x", b"")
    with pytest.raises(DownloadError, match="no list of their files"):
        objects.list_below(address)
    with pytest.raises(NotADatasetError, match="nothing at"):
        tokenmill.open(f"{address}/not-there")


FORMATS = {
    "datatrove": {},
    "dolma": {"dtype": "uint16"},
    "litdata": {},
    "litpkds": {},
    "llmc": {},
    "mds": {},
    "mds_zstd": {},
    "megatron": {},
    "modalities": {"dtype": "uint16"},
    "nanogpt": {"dtype": "uint16"},
    "npy": {},
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("split", [None, "val"])
def test_files_of_other_projects_open_from_a_store_like_from_a_disk(bucket, tmp_path, name, split):
    folder = OTHERS / name
    copy_to(folder, f"{bucket}/{name}")

    ours = tokenmill.open(folder, split, **FORMATS[name])
    theirs = tokenmill.open(f"{bucket}/{name}", split, cache_dir=tmp_path, **FORMATS[name])
    theirs = pickle.loads(pickle.dumps(theirs))

    assert theirs.format == ours.format
    assert theirs.fingerprint == ours.fingerprint
    np.testing.assert_array_equal(theirs[:], ours[:])
    if ours.has_index:
        ends = [data.document_ends(0, len(ours)).tolist() for data in (ours, theirs)]
        assert ends[0] == ends[1]


def test_a_pair_without_its_suffix_a_glob_and_a_list_open_from_each_store(store_bucket, tmp_path):
    for name in ("megatron", "llmc"):
        copy_to(OTHERS / name, f"{store_bucket}/{name}")
    cache = {"cache_dir": tmp_path}

    pair = tokenmill.open(f"{store_bucket}/megatron/corpus", **cache)
    glob = tokenmill.open(f"{store_bucket}/llmc/*_train_*.bin", **cache)
    listed = tokenmill.open([f"{store_bucket}/llmc/corpus_train_00000{n}.bin" for n in (1, 2)])

    assert pair.format == "megatron"
    np.testing.assert_array_equal(pair[:], tokenmill.open(OTHERS / "megatron")[:])
    train = tokenmill.open(OTHERS / "llmc")
    np.testing.assert_array_equal(glob[:], train[:])
    np.testing.assert_array_equal(listed[:], train[:])


def test_a_large_index_and_large_shards_are_read_whole_only_when_needed(
    bucket, moto_port, endpoint, tmp_path
):
    """Longer than the part that is fetched when a dataset is opened."""
    ids = np.arange(300_000, dtype="<u2")
    ends = np.arange(5, 300_001, 5)
    objects.put(f"{bucket}/large/corpus.ds", ids.tobytes())
    objects.put(f"{bucket}/large/corpus.ds.index", ends.astype("<u8").tobytes())
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        data = tokenmill.open(f"{bucket}/large", dtype="uint16", cache_dir=tmp_path)
        tokens = [r for r in proxy.requests if r.method == "GET" and r.path.endswith(".ds")]
        assert max(ranges_of(request)[1] for request in tokens) < 200_000 < 2 * len(ids)
    endpoint()
    np.testing.assert_array_equal(data[:], ids)
    np.testing.assert_array_equal(data.document_ends(0, len(ids)), ends)


def ranges_of(request):
    asked = dict(request.headers).get(b"range", b"").decode().removeprefix("bytes=")
    return tuple(map(int, asked.split("-"))) if asked else ()


def test_another_object_under_the_same_name_is_noticed(bucket, tmp_path):
    objects.put(f"{bucket}/a.npy", npy(np.arange(200_000, dtype="<u2")))
    data = tokenmill.open(f"{bucket}/a.npy", cache_dir=tmp_path)
    objects.put(f"{bucket}/a.npy", npy(np.arange(200_000, dtype="<u2")[::-1]))

    with pytest.raises(DownloadError, match="replaced"):
        data.tokens(0, 10)

    again = tokenmill.open(f"{bucket}/a.npy", cache_dir=tmp_path)
    np.testing.assert_array_equal(again[-3:], [2, 1, 0])
    with pytest.raises(NotADatasetError, match=r"there is no object .*/b\.npy, and none below it"):
        tokenmill.open(f"{bucket}/b.npy", cache_dir=tmp_path)


def npy(array):
    import io

    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array))
    return file.getvalue()


def test_faults_in_each_store_give_right_tokens(
    on_disk, store, store_bucket, use_server, tmp_path, impatient, monkeypatch
):
    """Every fifth answer to a read is refused, cut, whole or has a flipped bit."""
    monkeypatch.setattr(store_requests, "RETRY", replace(store_requests.RETRY, attempts=6))
    copy_to(on_disk, f"{store_bucket}/data")
    which, count = itertools.cycle(["503", "cut", "flip", "whole"]), itertools.count()

    def faults(request):
        return next(which) if request.method == "GET" and next(count) % 5 == 1 else None

    with Proxy(store.port, faults) as proxy:
        use_server(store.kind, proxy.port)
        theirs = tokenmill.open(f"{store_bucket}/data", cache_dir=tmp_path)
        np.testing.assert_array_equal(theirs[:], tokenmill.open(on_disk)[:])


@pytest.mark.parametrize("compress", [None, "zstd:1"])
def test_commands_that_look_at_a_dataset_look_at_one_in_a_store(
    on_disk, bucket, tmp_path, monkeypatch, compress
):
    """verify by sizes and byte by byte, report, show: what they find on the disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = on_disk
    if compress:
        folder = tmp_path / "packed"
        tokenmill.convert(on_disk, folder, compress=compress)
    address = f"{bucket}/{folder.name}"
    copy_to(folder, address)
    ours, theirs = (tokenmill.verify(place, full=True) for place in (folder, address))

    assert {**theirs.to_json(), "path": ""} == {**ours.to_json(), "path": ""}
    assert theirs.shards_read == theirs.shards
    assert report(address) == report(str(folder))

    name = next(n for n in files_of(folder) if n.startswith("train/shard_00001.bin"))
    content = files_of(folder)[name]
    objects.put(f"{address}/{name}", content[:50] + bytes([content[50] ^ 1]) + content[51:])
    objects.delete(f"{address}/train/shard_00002.{'ends.zst' if compress else 'ends'}")
    objects.put(f"{address}/mine.txt", b"a note")

    assert [finding.what for finding in tokenmill.verify(address).damaged] == ["missing"]
    found = tokenmill.verify(address, full=True)
    assert {finding.file for finding in found.damaged} == {
        name,
        f"train/shard_00002.{'ends.zst' if compress else 'ends'}",
    }
    assert found.extra == ["mine.txt"]


def test_an_object_that_was_cut_short_is_named_with_both_sizes(on_disk, store_bucket, tmp_path):
    tokenmill.convert(on_disk, tmp_path / "packed", compress="zstd:1")
    for kind, folder in (("plain", on_disk), ("packed", tmp_path / "packed")):
        files = files_of(folder)
        name = next(name for name in files if name.startswith("train/shard_00000.bin"))
        for left in (len(files[name]) - 1, 20):
            copy_to(folder, f"{store_bucket}/{kind}")
            objects.put(f"{store_bucket}/{kind}/{name}", files[name][:left])
            data = tokenmill.open(f"{store_bucket}/{kind}", cache_dir=tmp_path / "cache")
            with pytest.raises(
                DownloadError, match=rf"{len(files[name]):,}( bytes)? as its"
            ) as caught:
                data[:10]
            assert "cut short or replaced" in str(caught.value)


def test_compressed_mds_that_is_not_read_says_what_to_do(bucket, tmp_path):
    files = files_of(OTHERS / "mds_zstd")
    index = files.pop("index.json").replace(b'"zstd', b'"br').replace(b".mds.zstd", b".mds.br")
    objects.put(f"{bucket}/mds/index.json", index)
    for name, content in files.items():
        objects.put(f"{bucket}/mds/{name.replace('.zstd', '.br')}", content)
    with pytest.raises(tokenmill.errors.FormatError, match=r"compressed with 'br'") as caught:
        tokenmill.open(f"{bucket}/mds", cache_dir=tmp_path)
    assert "fetch the folder to a disk" in caught.value.hint
