"""A saved state belongs to these tokens and no others."""

import os

import numpy as np
import pytest
from formats.our_files import write_ours
from formats.raw_files import raw

import tokenmill
from tokenmill.errors import NotADatasetError, OrderMismatchError


@pytest.mark.parametrize("at", [0, 25_000, 49_999])
def test_other_tokens_in_files_of_the_same_name_and_size_are_other_data(tmp_path, at):
    here, there = (raw(tmp_path / name, x__bin=[7] * 50_000) for name in ("a", "b"))
    ids = np.full(50_000, 7, "<u2")
    ids[at] = 8
    ids.tofile(there / "x.bin")
    opened = [tokenmill.open(folder, "all", dtype="uint16") for folder in (here, there)]
    mine, other = (tokenmill.BatchLoader(data, batch_size=2, block_size=8) for data in opened)

    with pytest.raises(OrderMismatchError, match="the saved data"):
        other.load_state_dict(mine.state_dict())


def test_a_copy_elsewhere_is_the_same_data(tmp_path):
    folders = [raw(tmp_path / name, x__bin=range(9), y__bin=range(5)) for name in ("a", "b")]
    os.utime(folders[0] / "x.bin", (1, 1))

    prints = {tokenmill.open(f, "all", dtype="uint16").fingerprint for f in folders}

    assert len(prints) == 1


def test_two_files_that_changed_places_are_other_data(tmp_path):
    folder = raw(tmp_path, a__bin=[1, 2], b__bin=[3, 4])
    before = tokenmill.open(folder, "all", dtype="uint16").fingerprint
    raw(tmp_path, a__bin=[3, 4], b__bin=[1, 2])

    assert tokenmill.open(folder, "all", dtype="uint16").fingerprint != before


def test_opening_reads_no_tokens_and_a_fingerprint_few_files(tmp_path):
    raw(tmp_path, **{f"s{i:04d}__bin": [i] for i in range(300)})
    data = tokenmill.open(tmp_path, "all", dtype="uint16")
    sampled = np.linspace(0, 299, 64).astype(int).tolist()
    for i in set(range(300)) - set(sampled):
        (tmp_path / f"s{i:04d}.bin").unlink()
    _ = data.fingerprint

    data = tokenmill.open(tmp_path, "all", dtype="uint16")
    (tmp_path / "s0299.bin").unlink()
    with pytest.raises(NotADatasetError, match="is gone"):
        _ = data.fingerprint  # so it was not read when the dataset was opened


def test_of_a_manifest_it_is_of_its_hashes_and_reads_nothing(tmp_path):
    folder = write_ours(tmp_path / "d", {"train": [[1] * 7, [2] * 30]}, 10)
    data = tokenmill.open(folder)
    for path in (folder / "train").iterdir():
        path.unlink()

    assert data.fingerprint == "15f0b3eab7cbf5cf0fb36f8fa83db580"
