"""Answers that are not the hub's, and records that are not ours any more."""

import json
import os
import time

import pytest
from hub.conftest import QUICK, REPO, llmc_shard
from hub.fake_hub import describe

from tokenmill.errors import DownloadError
from tokenmill.hub import Retry, download
from tokenmill.hub.checked_files import CheckedFiles, origins

ANSWERS = (b"", b"null", b"[]", b"{", b"\xff", b'[{"path": 1}]', b"[" * 100_000)


@pytest.mark.parametrize("what", ["api:info", "api:tree"])
@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_that_is_not_the_hubs_is_an_error_of_ours(hub, tmp_path, what, answer):
    hub.commit(REPO, {"x_train_1.bin": llmc_shard(1)})
    hub.fault(what, "body", body=answer, times=9)

    with pytest.raises(DownloadError):
        download(REPO, tmp_path / "d", retry=Retry(attempts=1), progress=False)


def test_a_record_that_is_damaged_is_asked_for_again(hub, tmp_path):
    hub.commit(REPO, {"x_train_1.bin": llmc_shard(1)})
    download(REPO, tmp_path / "d", shards=1, progress=False)
    records = tmp_path / "d" / ".tokenmill" / "hub"
    for path in records.glob("*--*/*.json"):
        path.write_bytes(path.read_bytes().replace(b'"sha256:', b'7, "').replace(b"a", b"\xff"))

    again = download(REPO, tmp_path / "d", shards=1, progress=False)

    assert [file.path for file in again.kept] == ["x_train_1.bin"]


def test_a_half_written_record_is_no_origin_and_is_removed_when_it_is_old(tmp_path):
    leftover = tmp_path / ".tokenmill/hub/a--b/.main.json.12-0123abcd.tmp"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("x")
    checked = CheckedFiles(tmp_path, "a/b")

    assert origins(tmp_path) == []
    checked.remove_leftovers(3600)
    assert leftover.exists()
    os.utime(leftover, (time.time() - 7200,) * 2)
    checked.remove_leftovers(3600)
    assert not leftover.exists()


def test_a_file_that_is_shorter_than_the_hub_lists_is_given_up(hub, tmp_path):
    data = llmc_shard(1)
    hub.commit(REPO, {"x_train_1.bin": data})
    entry = describe("x_train_1.bin", data)
    entry["size"] = entry["lfs"]["size"] = len(data) + 1
    hub.fault("api:tree", "body", body=json.dumps([entry]).encode(), times=9)

    with pytest.raises(DownloadError, match=r"x_train_1\.bin of .*tried 4 times"):
        download(REPO, tmp_path / "d", retry=QUICK, progress=False)
