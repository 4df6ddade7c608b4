"""Promise: of two writers to one prefix one wins; what readers see is always one whole dataset."""

import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import flat
import numpy as np
import pytest
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy
from stores.servers import objects_of

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.errors import DownloadError, LockedError, NotADatasetError, PrepareError
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.stores import objects

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 40_000, "workers": 1}
CLAIM = ".tokenmill-claim.json"
MANIFEST = "dataset_metadata.json"


@pytest.fixture
def corpora(tmp_path):
    """Two folders of text, and the dataset of each on disk."""
    for name, documents in (("one", 60), ("two", 90)):
        write_corpus(tmp_path / name, documents=documents)
        for path in (tmp_path / name).rglob("*.*"):
            path.rename(path.with_name(f"{name}-{path.name}"))
        flat.prepare(tmp_path / name, tmp_path / f"{name}-out", **SETTINGS)
    return tmp_path


def tokens_at(address, folder):
    return tokenmill.open(address, split="all", cache_dir=folder)[:]


def tokens_of(folder):
    return tokenmill.open(folder, split="all")[:]


def put_as_somebody_else(url, data):
    signed = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=0"
    headers = {"Content-Type": "x", "Authorization": signed}
    urllib.request.urlopen(urllib.request.Request(url, data, headers, method="PUT")).close()


def prepare_in_a_process(source, address, work):
    code = (
        "import sys, tokenmill\n"
        f"sys.argv = ['tokenmill', 'prepare', {str(source)!r}, '-o', {address!r}, '--work_dir',"
        f" {str(work)!r}, '--tokenizer', 'bytes', '--tokens_per_shard', '20000', '--quiet']\n"
        "from tokenmill.cli import main\nmain()"
    )
    path = str(Path(tokenmill.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("store", ["moto", "azurite"], indirect=True)
def test_of_two_processes_that_write_to_one_prefix_one_wins_and_the_other_says_so(
    corpora, store_bucket, tmp_path
):
    address = f"{store_bucket}/data"
    both = {
        name: prepare_in_a_process(corpora / name, address, tmp_path / f"work-{name}")
        for name in ("one", "two")
    }
    errors = {name: process.communicate()[1] for name, process in both.items()}
    codes = {name: process.returncode for name, process in both.items()}

    (winner,) = [name for name, code in codes.items() if code == 0]
    (loser,) = set(both) - {winner}
    # Locked while the first one works; other inputs when it has finished already.
    assert codes[loser] in (11, 13), errors[loser]
    assert address in errors[loser]
    assert CLAIM not in objects_of(address)
    np.testing.assert_array_equal(
        tokens_at(address, tmp_path / "cache"), tokens_of(corpora / f"{winner}-out")
    )
    # What the loser made is not lost: its work folder can still replace the dataset.
    flat.prepare(
        corpora / loser, address, work_dir=tmp_path / f"work-{loser}", overwrite=True, **SETTINGS
    )
    np.testing.assert_array_equal(
        tokens_at(address, tmp_path / "cache"), tokens_of(corpora / f"{loser}-out")
    )


@pytest.fixture
def kill_at(moto_port, endpoint):
    """Run a preparation and kill it when it sends the n-th PUT of such a name."""

    def run(suffix, number, *args):
        puts, started = itertools.count(1), []

        def kill(request):
            is_one = request.method == "PUT" and request.path.partition("?")[0].endswith(suffix)
            if is_one and next(puts) == number:
                started[0].send_signal(signal.SIGKILL)
            return None

        with Proxy(moto_port, kill) as proxy:
            endpoint(proxy.address)
            started.append(prepare_in_a_process(*args))
            started[0].communicate()
        endpoint()
        assert started[0].returncode == -signal.SIGKILL

    return run


def test_a_writer_that_is_killed_after_the_manifest_clears_up_later(
    corpora, bucket, tmp_path, kill_at
):
    address = f"{bucket}/data"
    kill_at("README.md", 1, corpora / "one", address, tmp_path / "work")
    np.testing.assert_array_equal(tokens_at(address, tmp_path), tokens_of(corpora / "one-out"))
    assert CLAIM in objects_of(address)

    resumed = prepare_in_a_process(corpora / "one", address, tmp_path / "work")

    assert resumed.communicate()[1] == ""
    assert objects_of(address) == files_of(corpora / "one-out")
    assert not (tmp_path / "work").exists()


def test_a_killed_writer_keeps_its_claim_and_resumes(corpora, bucket, tmp_path, kill_at):
    address = f"{bucket}/data"
    kill_at(".bin", 3, corpora / "one", address, tmp_path / "work")
    assert MANIFEST not in objects_of(address)

    with pytest.raises(LockedError, match=r"another preparation writes to .*work folder .*/work"):
        flat.prepare(corpora / "two", address, work_dir=tmp_path / "other", **SETTINGS)
    assert not (tmp_path / "other").exists()
    resumed = prepare_in_a_process(corpora / "one", address, tmp_path / "work")

    assert resumed.communicate()[1] == ""
    assert objects_of(address) == files_of(corpora / "one-out")


def test_a_claim_is_taken_over_only_by_force_and_then_its_owner_stops(corpora, bucket, tmp_path):
    address = f"{bucket}/data"
    plan = {name: value for name, value in SETTINGS.items() if name != "workers"}
    given_up = flat.plan(corpora / "one", address, work_dir=tmp_path / "old", **plan)
    jobs.work(tmp_path / "old", JobPart(0, 1))
    assert given_up.destination == address
    assert any(name.endswith(".bin") for name in objects_of(address))

    outcome = flat.prepare(
        corpora / "two", address, work_dir=tmp_path / "new", break_lock=True, **SETTINGS
    )

    assert outcome.out_dir == address
    expected = files_of(corpora / "two-out")
    found = objects_of(address)
    assert {name: found[name] for name in expected} == expected
    with pytest.raises(LockedError, match=r"another preparation writes|another writer|no longer"):
        jobs.finish(tmp_path / "old", workers=1)
    np.testing.assert_array_equal(
        tokens_at(address, tmp_path / "cache"), tokens_of(corpora / "two-out")
    )


def test_an_object_that_is_changed_after_its_upload_is_noticed_and_made_again(
    corpora, bucket, tmp_path, moto_port, endpoint
):
    """Of the same size: only its hash shows it."""
    address = f"{bucket}/data"
    shard = f"{address.removeprefix('s3://')}/train/shard_00000.bin"
    other = bytes(len(files_of(corpora / "one-out")["train/shard_00000.bin"]))

    def somebody_else(request):
        if request.method == "PUT" and "tokenizer_state.json" in request.path:
            put_as_somebody_else(f"http://127.0.0.1:{moto_port}/{shard}", other)
        return None

    with Proxy(moto_port, somebody_else) as proxy:
        endpoint(proxy.address)
        with pytest.raises(LockedError, match=r"no longer what was uploaded .*shard_00000\.bin"):
            flat.prepare(corpora / "one", address, work_dir=tmp_path / "w", **SETTINGS)
    endpoint()
    assert MANIFEST not in objects_of(address)

    flat.prepare(corpora / "one", address, work_dir=tmp_path / "w", **SETTINGS)

    assert objects_of(address) == files_of(corpora / "one-out")


def test_a_list_that_is_old_does_not_stop_it(corpora, bucket, tmp_path, moto_port, endpoint):
    with Proxy(moto_port, lambda r: "empty" if "list-type" in r.path else None) as proxy:
        endpoint(proxy.address)
        flat.prepare(corpora / "one", f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
    endpoint()

    assert objects_of(f"{bucket}/data") == files_of(corpora / "one-out")


def test_a_missing_bucket_is_noticed_before_anything_is_read(corpora, store, tmp_path):
    calls = []

    with pytest.raises(DownloadError, match=r"'no-such-bucket-anywhere': 404 \w+"):
        flat.prepare(
            corpora / "one",
            f"{store.scheme}://no-such-bucket-anywhere/data",
            work_dir=tmp_path / "w",
            progress=Listening(calls),
            **SETTINGS,
        )

    assert not calls
    assert not (tmp_path / "w").exists()


class Listening(Progress):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def follow(self, *args, **options):
        self.calls.append(args)
        return super().follow(*args, **options)


def test_a_store_without_conditional_writes_is_refused(corpora, use_server, tmp_path):
    server = use_server("s3rver")
    address = f"{server.make_bucket('without-conditions')}/data"

    with pytest.raises(PrepareError, match="ignores the conditions of a write"):
        flat.prepare(corpora / "one", address, work_dir=tmp_path / "w", **SETTINGS)

    assert objects.list_below(address) == []
    for name, data in files_of(corpora / "one-out").items():  # as the hint says
        objects.put(f"{address}/{name}", data)
    np.testing.assert_array_equal(tokens_at(address, tmp_path), tokens_of(corpora / "one-out"))


def test_a_prefix_with_other_objects_is_not_filled(corpora, bucket, tmp_path):
    objects.put(f"{bucket}/data/holiday.jpg", b"x")

    with pytest.raises(LockedError, match=r"but no dataset \(such as .*holiday\.jpg"):
        flat.prepare(corpora / "one", f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)

    assert objects_of(f"{bucket}/data") == {"holiday.jpg": b"x"}


@pytest.mark.parametrize(
    ("store", "dedup"),
    [("moto", "lines"), ("gcs", "documents"), ("azurite", "documents")],
    indirect=["store"],
)
def test_what_is_added_in_a_store_is_what_is_added_on_a_disk(
    corpora, store_bucket, tmp_path, dedup
):
    address, folder = f"{store_bucket}/data", tmp_path / "folder"
    settings = {**SETTINGS, "dedup": dedup}
    for place, where in ((address, {"work_dir": tmp_path / "w"}), (folder, {})):
        flat.prepare(corpora / "one", place, **where, **settings)
        flat.prepare(corpora / "two", place, append=True, workers=1, **where)

    assert objects_of(address) == files_of(folder)
    assert tokenmill.open(address).fingerprint == tokenmill.open(folder).fingerprint


def test_numbered_jobs_add_to_a_dataset_in_a_bucket(corpora, bucket, tmp_path):
    address, work = f"{bucket}/data", tmp_path / "w"
    for name in ("folder", "bucket"):
        place, where = (address, {"work_dir": work}) if name == "bucket" else (tmp_path / name, {})
        flat.prepare(corpora / "one", place, **where, **SETTINGS)
    flat.prepare(corpora / "two", tmp_path / "folder", append=True, workers=1)

    flat.plan(corpora / "two", address, work_dir=work, append=True)
    while not jobs.status(work).complete:
        jobs.work(work, JobPart(0, 1))
    jobs.finish(work, workers=1)

    assert objects_of(address) == files_of(tmp_path / "folder")


def test_readers_see_the_old_dataset_or_the_new_one(corpora, bucket, tmp_path, moto_port, endpoint):
    address, caches = f"{bucket}/data", (tmp_path / f"cache-{n}" for n in itertools.count())
    old, new = (tokens_of(corpora / f"{name}-out") for name in ("one", "two"))
    flat.prepare(corpora / "one", address, work_dir=tmp_path / "w", **SETTINGS)
    reader = tokenmill.open(address, split="all", cache_dir=next(caches))
    seen = []

    def read_meanwhile(request):
        if (request.method == "PUT" and "/train/" in request.path) or MANIFEST in request.path:
            code = (
                "import tokenmill; data = tokenmill.open("
                f"{address!r}, split='all', cache_dir={str(next(caches))!r})\n"
                "print(data[:].tolist())"
            )
            environment = {
                **os.environ,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{moto_port}",
                "PYTHONPATH": str(Path(tokenmill.__file__).parents[1]),
            }
            if request.method == "PUT" and len(seen) < 3:
                found = subprocess.run(
                    [sys.executable, "-c", code], env=environment, capture_output=True, check=True
                )
                seen.append(json.loads(found.stdout))
        return None

    with Proxy(moto_port, read_meanwhile) as proxy:
        endpoint(proxy.address)
        flat.prepare(corpora / "two", address, work_dir=tmp_path / "w", overwrite=True, **SETTINGS)
    endpoint()

    assert len(seen) == 3
    for found in seen:
        np.testing.assert_array_equal(found, old)
    np.testing.assert_array_equal(tokens_at(address, next(caches)), new)
    np.testing.assert_array_equal(reader[:], old)  # opened before, read after


@pytest.mark.parametrize("store", ["gcs", "azurite"], indirect=True)
def test_a_dataset_is_replaced_added_to_and_replaced_again(corpora, store_bucket, tmp_path):
    address, work = f"{store_bucket}/data", tmp_path / "w"
    settings = {**SETTINGS, "work_dir": work}
    flat.prepare(corpora / "one", address, **settings)

    flat.prepare(corpora / "two", address, overwrite=True, **settings)
    assert tokenmill.open(address).fingerprint == tokenmill.open(corpora / "two-out").fingerprint
    assert "train/shard_00000.bin" in objects_of(address)  # for those who read it still
    again = flat.prepare(corpora / "two", address, **settings)
    assert again.already_there

    added = {"append": True, "workers": 1, "dedup": "none"}
    flat.prepare(corpora / "one", address, work_dir=work, **added)
    flat.prepare(corpora / "two", tmp_path / "folder", **SETTINGS)
    flat.prepare(corpora / "one", tmp_path / "folder", **added)
    np.testing.assert_array_equal(tokens_at(address, tmp_path), tokens_of(tmp_path / "folder"))

    flat.prepare(corpora / "one", address, overwrite=True, **settings)
    np.testing.assert_array_equal(tokens_at(address, tmp_path), tokens_of(corpora / "one-out"))
    assert "train/shard_00000.bin" not in objects_of(address)
    assert len({name.partition("/")[0] for name in objects_of(address)} - {"README.md"}) == 3
    assert not work.exists()


def test_a_manifest_that_somebody_changed_is_not_replaced(
    corpora, bucket, tmp_path, moto_port, endpoint
):
    address = f"{bucket}/data"
    where = f"http://127.0.0.1:{moto_port}/{address.removeprefix('s3://')}/{MANIFEST}"
    flat.prepare(corpora / "one", address, work_dir=tmp_path / "w", **SETTINGS)

    def somebody_else(request):
        if request.method == "PUT" and MANIFEST in request.path:
            put_as_somebody_else(where, b"{}")
        return None

    with Proxy(moto_port, somebody_else) as proxy:
        endpoint(proxy.address)
        with pytest.raises(LockedError, match="another writer"):
            flat.prepare(corpora / "two", address, work_dir=tmp_path / "w", append=True)
    endpoint()

    assert objects.read_all(f"{address}/{MANIFEST}", at_most=9) == b"{}"


def test_nothing_is_added_to_nothing(corpora, bucket, tmp_path):
    with pytest.raises(NotADatasetError, match="there is no dataset at s3://"):
        flat.prepare(corpora / "one", f"{bucket}/x", work_dir=tmp_path / "w", append=True)
    assert objects.list_below(bucket) == []
