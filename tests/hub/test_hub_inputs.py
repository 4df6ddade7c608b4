"""Files on the hub as inputs: the shards of the same files on a disk, from one commit."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import flat
import numpy as np
import pytest
from hub.conftest import QUICK
from preparation.oracle import SOURCE, hashes_of_files

from tokenmill.errors import DownloadError, PrepareError, SettingsMismatchError
from tokenmill.hub import hub_inputs
from tokenmill.stores.object_file import BLOCK_BYTES

pq = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
REPO = "ann/stories"
SETTINGS = {"tokenizer": "bytes", "unit_bytes": 100_000, "workers": 1}


def parquet(texts, **options):
    file = io.BytesIO()
    table = pyarrow.table({"url": [f"u{n}" for n in range(len(texts))], "text": texts})
    pq.write_table(table, file, row_group_size=150, **options)
    return file.getvalue()


def stories(seed, number=600):
    words = np.random.default_rng(seed).integers(0, 1 << 60, (number, 30))
    return [f"Story {n}: {' '.join(map(str, row))}\n" for n, row in enumerate(words)]


@pytest.fixture(autouse=True)
def forgotten():
    """Each test has a hub of its own, so nothing that is known of another may stay."""
    for known in (hub_inputs._hub, hub_inputs._list, hub_inputs._read_end):
        known.cache_clear()
    hub_inputs.sizes.clear()


@pytest.fixture
def files():
    rows = "".join(json.dumps({"text": text}) + "\n" for text in stories(3))
    return {
        "README.md": b"# Stories\n",
        "data/a.parquet": parquet(stories(1)),
        "data/b.parquet": parquet(stories(2)),
        "data/c.jsonl": rows.encode(),
        "data/empty.jsonl": b"",
    }


@pytest.fixture
def expected(files, tmp_path):
    for name, data in files.items():
        if name.startswith("data/") and data:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
    flat.prepare(tmp_path / "data", tmp_path / "expected", **SETTINGS)
    return shards(tmp_path / "expected")


def shards(out):
    return {name: digest for name, digest in hashes_of_files(out).items() if "/" in str(name)}


def sources(out):
    return [s["name"] for s in json.loads((out / "dataset_metadata.json").read_text())["sources"]]


@pytest.mark.parametrize(
    "entry", ["", "/", "/data", "/data/*", "/**/*.[pj]*", "@main/data/?.*", "@COMMIT/data"]
)
def test_the_shards_are_those_of_a_folder_and_the_commit_is_in_the_manifest(
    hub, files, expected, tmp_path, entry
):
    commit = hub.commit(REPO, files)
    address = f"hf://datasets/{REPO}{entry.replace('COMMIT', commit)}"

    flat.prepare(address, tmp_path / "out", **SETTINGS)

    assert shards(tmp_path / "out") == expected
    folder = f"hf://datasets/{REPO}@{commit}/data"
    names = [f"{folder}/{name}" for name in ("a.parquet", "b.parquet", "c.jsonl")]
    assert sources(tmp_path / "out") == names
    assert names[0] in (tmp_path / "out" / "README.md").read_text()


def test_parquet_larger_than_a_block_is_read_by_range_in_other_processes(hub, tmp_path):
    data = parquet(stories(5, 25_000), compression="none")
    assert len(data) > 3 * BLOCK_BYTES
    hub.commit(REPO, {"a.parquet": data})
    (tmp_path / "a.parquet").write_bytes(data)
    large = {**SETTINGS, "unit_bytes": 5 << 20, "workers": 2}

    flat.prepare(f"hf://datasets/{REPO}", tmp_path / "out", **large)
    flat.prepare(tmp_path / "a.parquet", tmp_path / "expected", **large)

    assert shards(tmp_path / "out") == shards(tmp_path / "expected")
    ranges = [request.headers.get("range") for request in hub.bodies("a.parquet")]
    assert all(re.fullmatch(r"bytes=\d+-\d+", asked) for asked in ranges)


def test_nothing_behind_the_end_of_a_file_is_asked_for(hub, tmp_path):
    """The pages with the texts, all in a dictionary, come before those that the footer names."""
    file = io.BytesIO()
    table = pyarrow.table({"text": stories(6, 9000)})
    pq.write_table(table, file, compression="none", dictionary_pagesize_limit=16 << 20)
    data = file.getvalue()
    assert BLOCK_BYTES < len(data) < 2 * BLOCK_BYTES
    hub.commit(REPO, {"a.parquet": data})

    flat.prepare(f"hf://datasets/{REPO}", tmp_path / "out", **SETTINGS)

    for request in hub.bodies("a.parquet"):
        first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        assert first <= last < len(data)


PROGRAM = """
import os, signal, sys
from flat import prepare
from tokenmill.base.progress import Progress

class Killed(Progress):
    def follow(self, what, results, **options):
        for number, result in enumerate(super().follow(what, results, **options), 1):
            yield result
            if what == "encode" and number == 3:
                os.kill(os.getpid(), signal.SIGKILL)

prepare(sys.argv[1], "out", tokenizer="bytes", unit_bytes=100_000, workers=1, progress=Killed())
"""


def test_a_killed_run_resumes_with_its_commit_after_the_branch_moved(
    hub, files, expected, tmp_path
):
    commit = hub.commit(REPO, files)
    address = f"hf://datasets/{REPO}/data"
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[1]}"}
    command = [sys.executable, "-P", "-c", PROGRAM, address]
    killed = subprocess.run(command, cwd=tmp_path, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    hub.commit(REPO, {"data/other.jsonl": b'{"text": "other"}\n'})

    flat.prepare(address, tmp_path / "out", **SETTINGS)

    assert shards(tmp_path / "out") == expected
    assert all(f"@{commit}/" in name for name in sources(tmp_path / "out"))
    with pytest.raises(SettingsMismatchError, match=r"other\.jsonl .* is new"):
        flat.prepare(address, tmp_path / "out", **SETTINGS)


@pytest.mark.parametrize("kind", ["status", "refuse", "short", "cut"])
def test_a_request_that_fails_is_made_again(hub, files, expected, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(hub_inputs, "Retry", lambda: QUICK)
    hub.commit(REPO, files)
    hub.fault("data/b.parquet", kind, times=2, at=5)

    flat.prepare(f"hf://datasets/{REPO}/data", tmp_path / "out", **SETTINGS)

    assert shards(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("hf://datasets/stories", ValueError, "is not an address on the hub; write it like"),
        ("hf://models/ann/x/a.txt", ValueError, "is not an address on the hub; write it like"),
        (f"hf://datasets/{REPO}/*.txt", PrepareError, "there is nothing to read at hf://"),
        (f"hf://datasets/{REPO}@nope/*", DownloadError, "no such revision"),
        ("hf://datasets/ann/nothing/*", DownloadError, "no such dataset repository"),
    ],
)
def test_an_address_that_means_nothing_is_refused(hub, files, tmp_path, address, kind, message):
    hub.commit(REPO, files)

    with pytest.raises(kind, match=message):
        flat.prepare(address, tmp_path / "out", **SETTINGS)


def test_a_dataset_cannot_be_written_to_the_hub(tmp_path):
    with pytest.raises(ValueError, match="can only be read; write to a folder, then upload it"):
        flat.prepare([{"text": "a"}], f"hf://datasets/{REPO}")


def test_the_command_reads_from_the_hub(hub, files, expected, tmp_path):
    hub.commit(REPO, files)
    words = ["prepare", f"hf://datasets/{REPO}/data", "-o", "out", "--tokenizer", "bytes"]

    subprocess.run(
        [sys.executable, "-m", "tokenmill", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        capture_output=True,
    )

    assert len(sources(tmp_path / "out")) == 3
