"""Promise: a preparation whose work is in a bucket makes the same bytes as one in a folder."""

import os
import pickle
from pathlib import Path

import flat
import pytest
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy
from stores.servers import objects_of

from tokenmill.errors import LockedError, SettingsMismatchError
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.workspace import lease
from tokenmill.preparation.workspace.work_bucket import BucketPlace, open_bucket
from tokenmill.stores import objects

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 40_000}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "corpus", documents=150)
    return folder / "corpus"


def expected_of(corpus, tmp_path, **settings):
    flat.prepare(corpus, tmp_path / "expected", workers=1, **SETTINGS, **settings)
    return files_of(tmp_path / "expected")


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup": "lines"},
        {"dedup": "documents", "compress": "zstd:1"},
        {"clean": True, "dedup": "lines", "val_fraction": 0},
        {"dedup": "none", "tokenizer": "chars"},
    ],
    ids=str,
)
def test_the_bytes_are_those_of_a_folder_and_nothing_is_left(corpus, bucket, tmp_path, settings):
    settings = {**SETTINGS, **settings}
    flat.prepare(corpus, tmp_path / "expected", workers=1, **settings)

    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch", "workers": 1}
    flat.prepare(corpus, f"{bucket}/data", **where, **settings)

    assert objects_of(f"{bucket}/data") == files_of(tmp_path / "expected")
    assert objects.list_below(f"{bucket}/work") == []
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []
