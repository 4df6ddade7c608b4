"""Ids without a header in a file named `.npy`, as `np.memmap` and `array.tofile` write them."""

import logging

import numpy as np
import pytest

import tokenmill
from tokenmill.errors import FormatError


def raw(path, ids, dtype):
    """Write ids as the script of seed 001 does."""
    mapped = np.memmap(path, dtype=dtype, mode="w+", shape=ids.shape)
    mapped[:] = ids
    mapped.flush()
    return path


@pytest.fixture
def ids():
    """Ids of GPT-2, small ones more often than large ones."""
    return (50_257 * np.random.default_rng(0).random(5000) ** 3).astype(np.int64)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_ids_of_4_or_8_bytes_open_as_they_are_and_it_is_said_once(tmp_path, ids, dtype, caplog):
    path = raw(tmp_path / "train.npy", ids, dtype)
    other = raw(tmp_path / "val.npy", ids[:2000], dtype)

    with caplog.at_level(logging.WARNING):
        data = tokenmill.open(path)
        assert tokenmill.open(other)[:].tolist() == ids[:2000].tolist()

    assert data[:].tolist() == ids.tolist()
    (said,) = caplog.messages
    width = f"int{8 * np.dtype(dtype).itemsize}"
    assert said.startswith(f"{path} has no header; ")
    assert f"only as {width}, and are read so" in said


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        (lambda ids: ids, "uint16"),  # two bytes, or a byte for each letter
        (lambda ids: ids[:100], "int32"),  # too few
        (lambda ids: ids * 0 + 7, "int32"),  # all below 16: the upper halves look alike
        (lambda ids: np.where(ids == ids[0], 1 << 20, ids), "int32"),  # of no vocabulary
        (lambda ids: np.where(ids == ids[0], -100, ids), "int32"),  # labels, not ids
    ],
)
def test_where_two_widths_fit_int32_is_offered(tmp_path, ids, change, dtype):
    path = raw(tmp_path / "a.npy", change(ids), dtype)

    with pytest.raises(FormatError, match="its token type is unknown") as caught:
        tokenmill.open(path)

    assert f'tokenmill.open("{path}", dtype="int32")' in caught.value.hint


def test_a_type_that_is_named_is_used_and_nothing_is_said(tmp_path, ids, caplog):
    path = raw(tmp_path / "a.npy", ids, "int32")

    with caplog.at_level(logging.WARNING):
        as_asked = tokenmill.open(path, dtype="uint16")

    assert as_asked[:4].tolist() == [ids[0], 0, ids[1], 0]
    assert not caplog.messages


def test_a_file_that_ends_inside_an_id_is_refused(tmp_path, ids):
    path = raw(tmp_path / "a.npy", ids, "int32")
    path.write_bytes(path.read_bytes()[:-2])

    with pytest.raises(FormatError, match="19,998 bytes"):
        tokenmill.open(path)
