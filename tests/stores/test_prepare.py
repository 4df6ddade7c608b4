"""Promise: prepared from and to a bucket, a dataset has the same bytes as on disk."""

import gzip
import itertools
import json
import urllib.request
from dataclasses import replace

import flat
import pytest
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy
from stores.servers import objects_of

from tokenmill.errors import DownloadError, LockedError, PrepareError, SettingsMismatchError
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.stores import objects, store_requests
from tokenmill.stores.object_file import BLOCK_BYTES
from tokenmill.stores.objects import glob_pattern
from tokenmill.text.inputs.sources import find_sources

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 40_000, "workers": 1}


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "corpus", documents=150)
    return tmp_path / "corpus"


@pytest.fixture
def expected(corpus, tmp_path):
    flat.prepare(corpus, tmp_path / "expected", **SETTINGS)
    return files_of(tmp_path / "expected")


@pytest.fixture
def remote_corpus(corpus, bucket):
    for name, data in files_of(corpus).items():
        objects.put(f"{bucket}/corpus/{name}", data)
    return f"{bucket}/corpus"


def test_from_a_bucket_to_a_bucket_gives_the_bytes_of_a_folder(
    remote_corpus, bucket, expected, tmp_path
):
    outcome = flat.prepare(remote_corpus, f"{bucket}/data", work_dir=tmp_path / "work", **SETTINGS)

    assert objects_of(f"{bucket}/data") == expected
    assert not (tmp_path / "work").exists()
    assert outcome.out_dir == f"{bucket}/data"


def test_workers_read_by_range_and_upload_in_processes_of_their_own(
    remote_corpus, bucket, expected, tmp_path
):
    flat.prepare(
        f"{remote_corpus}/",
        f"{bucket}/data",
        work_dir=tmp_path / "work",
        **{**SETTINGS, "workers": 2},
    )

    assert objects_of(f"{bucket}/data") == expected


def test_numbered_jobs_share_the_way_to_a_bucket(corpus, bucket, expected, tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name != "workers"}
    work = tmp_path / "work"
    plan = flat.plan(corpus, f"{bucket}/data", work_dir=work, **settings)
    assert plan.destination == f"{bucket}/data"

    while not jobs.status(work).complete:
        for number in (1, 0):
            jobs.work(work, JobPart(number, 2))
    assert f"{bucket}/data/dataset_metadata.json" not in objects.list_below(f"{bucket}/data")
    jobs.finish(work, workers=1)

    assert objects_of(f"{bucket}/data") == expected


def test_the_same_command_again_says_that_it_is_there_and_another_is_refused(
    corpus, bucket, tmp_path
):
    for note in ([], ["it was complete already"]):
        outcome = flat.prepare(
            corpus, f"{bucket}/data", work_dir=tmp_path / "w", val_fraction=0, **SETTINGS
        )
        assert outcome.notes == note
    with pytest.raises(SettingsMismatchError, match="val_fraction"):
        flat.prepare(corpus, f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
    with pytest.raises(ValueError, match="work_dir"):
        flat.prepare(corpus, f"{bucket}/other", **SETTINGS)
    with pytest.raises(SettingsMismatchError, match=r"all 3 inputs are in s3://.* already"):
        flat.prepare(corpus, f"{bucket}/data", work_dir=tmp_path / "w", append=True)


def test_stopped_at_the_manifest_it_resumes_with_what_was_uploaded(
    corpus, bucket, expected, tmp_path, moto_port, endpoint, impatient
):
    def no_manifest(request):
        last = request.path.partition("?")[0].endswith("dataset_metadata.json")
        return "503" if request.method == "PUT" and last else None

    with Proxy(moto_port, no_manifest) as proxy:
        endpoint(proxy.address)
        with pytest.raises(DownloadError, match=r"dataset_metadata\.json"):
            flat.prepare(corpus, f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
        puts = len([r for r in proxy.requests if r.method == "PUT" and ".bin" in r.path])
    endpoint()
    assert puts > 3
    assert f"{bucket}/data/dataset_metadata.json" not in objects.list_below(f"{bucket}/data")

    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        flat.prepare(corpus, f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
        assert not [r for r in proxy.requests if r.method == "PUT" and ".bin" in r.path]
    endpoint()
    assert objects_of(f"{bucket}/data") == expected


def test_with_every_fifth_answer_wrong_the_bytes_are_right(
    remote_corpus, bucket, expected, tmp_path, moto_port, endpoint, impatient, monkeypatch
):
    monkeypatch.setattr(store_requests, "RETRY", replace(store_requests.RETRY, attempts=6))
    which = itertools.cycle(["503", "cut", "flip", "stall", "whole", "503", "cut", "flip", "cut"])
    count = itertools.count()

    def faults(request):
        read = request.method == "GET" and "list-type" not in request.path
        return next(which) if read and next(count) % 5 == 2 else None

    with Proxy(moto_port, faults) as proxy:
        endpoint(proxy.address)
        flat.prepare(remote_corpus, f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
    endpoint()

    assert objects_of(f"{bucket}/data") == expected


@pytest.mark.parametrize("dedup", ["lines", "none"])
def test_large_objects_read_by_range_with_flipped_bits_give_the_right_bytes(
    bucket, tmp_path, moto_port, endpoint, impatient, monkeypatch, dedup
):
    monkeypatch.setattr(store_requests, "RETRY", replace(store_requests.RETRY, attempts=6))
    settings = {**SETTINGS, "dedup": dedup, "unit_bytes": 2_000_000, "tokens_per_shard": 10**7}
    text = "".join(f"line {n}: {n * n} is the square of {n}\n" for n in range(120_000))
    corpus = {"large.txt": text.encode(), "rows.jsonl.gz": gzip.compress(jsonl(text[:200_000]))}
    (tmp_path / "corpus").mkdir()
    for name, data in corpus.items():
        (tmp_path / "corpus" / name).write_bytes(data)
        objects.put(f"{bucket}/corpus/{name}", data)
    assert len(corpus["large.txt"]) > BLOCK_BYTES
    flat.prepare(tmp_path / "corpus", tmp_path / "expected", **settings)
    count = itertools.count()

    def faults(request):
        return "flip" if request.method == "GET" and next(count) % 7 == 3 else None

    with Proxy(moto_port, faults) as proxy:
        endpoint(proxy.address)
        flat.prepare(f"{bucket}/corpus", tmp_path / "found", **settings)
        assert next(count) > 14
    endpoint()

    assert files_of(tmp_path / "found") == files_of(tmp_path / "expected")


def jsonl(text):
    return b"".join(json.dumps({"text": line}).encode() + b"\n" for line in text.splitlines())


def test_a_dataset_that_somebody_else_finished_first_is_not_replaced(
    corpus, bucket, tmp_path, moto_port, endpoint
):
    """Both looked when there was no manifest; the other one was quicker."""
    theirs = f"{bucket}/data/dataset_metadata.json"

    def somebody_else(request):
        if request.method == "PUT" and "tokenizer_state.json" in request.path:
            where = f"http://127.0.0.1:{moto_port}/{theirs.removeprefix('s3://')}"
            kind = {"Content-Type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(where, b"{}", kind, method="PUT"))
        return None

    with Proxy(moto_port, somebody_else) as proxy:
        endpoint(proxy.address)
        with pytest.raises(LockedError, match="another writer"):
            flat.prepare(corpus, f"{bucket}/data", work_dir=tmp_path / "w", **SETTINGS)
    endpoint()

    assert objects.read_all(theirs, at_most=10) == b"{}"


def test_objects_are_found_by_name_prefix_and_glob_like_files(remote_corpus, corpus):
    ours = find_sources(corpus)

    def names(*inputs):
        return [(s.name, s.size, s.kind, s.compression) for s in find_sources(inputs)]

    assert names(remote_corpus) == [(s.name, s.size, s.kind, s.compression) for s in ours]
    assert names(f"{remote_corpus}/**/*.jsonl*") == names(
        f"{remote_corpus}/a.jsonl", f"{remote_corpus}/sub/"
    )
    with pytest.raises(PrepareError, match="there is nothing to read"):
        names(f"{remote_corpus}/*.parquet")
    with pytest.raises(PrepareError, match="given twice"):
        names(f"{remote_corpus}/a.jsonl", f"{remote_corpus}/*.jsonl")
    with pytest.raises(PrepareError, match="some inputs are files"):
        names(f"{remote_corpus}/a.jsonl", str(corpus / "b.txt"))


@pytest.mark.parametrize(
    ("pattern", "matches", "does_not"),
    [
        ("s3://b/*.txt", "s3://b/a.txt", "s3://b/x/a.txt"),
        ("s3://b/**/*.txt", "s3://b/x/y/a.txt", "s3://b/x/y/a.csv"),
        ("s3://b/**/*.txt", "s3://b/a.txt", "s3://c/a.txt"),
        ("s3://b/part-[0-3].txt", "s3://b/part-2.txt", "s3://b/part-4.txt"),
        ("s3://b/part-[!0-3].txt", "s3://b/part-4.txt", "s3://b/part-2.txt"),
        ("s3://b/a?c+.txt", "s3://b/abc+.txt", "s3://b/ac+.txt"),
    ],
)
def test_globs_match_as_they_do_for_files(pattern, matches, does_not):
    assert glob_pattern(pattern).fullmatch(matches)
    assert not glob_pattern(pattern).fullmatch(does_not)
