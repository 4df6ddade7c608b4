"""A small file that unpacks to a huge one is refused early, in whatever way it is compressed."""

import bz2
import gzip
import lzma
import os

import numpy as np
import pytest
from backports import zstd

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.open_input import InputStream

BLOCK = b"a" * (1 << 20)
COMPRESS = {
    "gzip": lambda data: gzip.compress(data, 9),
    "zstd": zstd.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "bzip2": bz2.compress,
}


@pytest.fixture(params=COMPRESS)
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """A bomb of 20 MiB instead of one of some GiB."""
    monkeypatch.setattr("tokenmill.text.inputs.open_input.BOMB_BYTES", 4 << 20)
    monkeypatch.setattr("tokenmill.text.inputs.open_input.BOMB_RATIO", 100)


def read_all(path, kind):
    """How many bytes of text were read, and the error that ended it."""
    size = 0
    with InputStream(str(path), kind, path.name) as stream:
        try:
            while block := stream.read(1 << 20):
                size += len(block)
        except BadInputError as error:
            return size, error
    return size, None


def test_a_bomb_is_refused_after_its_first_part(tmp_path, kind):
    path = tmp_path / "bomb"
    path.write_bytes(COMPRESS[kind](BLOCK) * 20)

    size, error = read_all(path, kind)

    assert size == 4 << 20
    assert "bomb unpacks to more than 100 times its size: to 5,242,880 bytes" in error.message
    assert "unpack the file" in error.hint


def test_what_is_small_may_be_as_repetitive_as_it_likes(tmp_path, kind):
    path = tmp_path / "zeros"
    path.write_bytes(COMPRESS[kind](BLOCK) * 4)

    assert read_all(path, kind) == (4 << 20, None)


def test_what_is_large_may_be_if_its_ratio_is_not_absurd(tmp_path, kind):
    path = tmp_path / "text"
    noise = np.random.default_rng(0).bytes(30_000)
    path.write_bytes(COMPRESS[kind](BLOCK + noise) * 20)

    assert read_all(path, kind) == (20 * (len(BLOCK) + len(noise)), None)


@pytest.mark.parametrize("is_abandoned", [True, False])
def test_a_file_that_does_not_close_is_an_error_unless_it_is_abandoned(tmp_path, is_abandoned):
    """Whoever looks only at the beginning of a file does not learn what closing it says."""
    (tmp_path / "a.txt").write_bytes(b"a text")

    def letters():
        with InputStream(str(tmp_path / "a.txt"), None, "a.txt") as stream:
            yield stream.read(1)
            os.close(max(int(number) for number in os.listdir("/proc/self/fd") if names(number)))
            yield stream.read(0)

    def names(number):
        try:
            return os.readlink(f"/proc/self/fd/{number}").endswith("a.txt")
        except OSError:
            return False

    found = letters()
    assert [next(found), next(found)] == [b"a", b""]
    if is_abandoned:
        found.close()
    else:
        with pytest.raises(OSError, match="Bad file descriptor"):
            next(found)
