"""Promise: an object is read and written whole and unchanged, or a typed error names it."""

import hashlib
import io
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from stores.proxy import Proxy

from tokenmill.errors import DownloadError, LockedError, MissingExtraError, PrepareError
from tokenmill.stores import objects, store_requests
from tokenmill.stores.object_file import BLOCK_BYTES, ObjectFile, read_range

DATA = np.random.default_rng(5).bytes(300_000)
SECRET = "not-a-real-secret"


def first(count, fault, method="GET"):
    """A fault for the first `count` requests of a kind."""
    left = [count]

    def faults(request):
        if request.method == method and left[0]:
            left[0] -= 1
            return fault
        return None

    return faults


@pytest.fixture
def stored(bucket):
    address = f"{bucket}/folder/data.bin"
    objects.put(address, DATA)
    return address


@pytest.mark.parametrize("fault", ["503", "stall", "cut", "whole"])
def test_a_range_is_right_although_the_first_answers_are_not(
    stored, moto_port, endpoint, impatient, fault
):
    with Proxy(moto_port, first(2, fault)) as proxy:
        endpoint(proxy.address)

        found = objects.read(stored, 1000, 250_000, objects.stat(stored))

        assert found == DATA[1000:250_000]
        # Two that were wrong, one, and the same bytes again in two pieces.
        assert len([r for r in proxy.requests if r.method == "GET"]) == 5


def test_an_answer_that_there_is_no_object_is_asked_for_again_if_it_is_cut(
    stored, moto_port, endpoint, impatient
):
    with Proxy(moto_port, first(2, "cut")) as proxy:
        endpoint(proxy.address)

        assert objects.read_if_there(f"{stored}-not-there", 0, 10, 10) is None
        assert len(proxy.requests) == 3


@pytest.mark.parametrize("fault", ["503", "stall", "cut", "whole"])
def test_a_fault_that_stays_is_an_error_with_bucket_and_key_and_no_secret(
    stored, moto_port, endpoint, impatient, fault
):
    with Proxy(moto_port, first(99, fault)) as proxy:
        endpoint(proxy.address)

        with pytest.raises(DownloadError) as caught:
            objects.read(stored, 0, 250_000, objects.stat(stored))

    bucket = stored.split("/")[2]
    assert "'folder/data.bin'" in str(caught.value)
    assert repr(bucket) in str(caught.value)
    expected = {"503": "503 SlowDown", "whole": "Received non-partial response"}
    assert expected.get(fault, "request or response body error") in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "not-a-real-key" not in str(caught.value)


LARGE = np.random.default_rng(7).bytes(BLOCK_BYTES + 100_000)


@pytest.mark.parametrize(
    ("size", "flipped"), [(300_000, 0), (len(LARGE), 0), (len(LARGE), 1), (len(LARGE), 2)]
)
def test_a_flipped_bit_is_noticed_and_the_bytes_are_read_again(
    bucket, moto_port, endpoint, impatient, size, flipped
):
    address, count = f"{bucket}/data", itertools.count()
    objects.put(address, LARGE[:size])

    def one(request):
        return "flip" if request.method == "GET" and next(count) == flipped else None

    with Proxy(moto_port, one) as proxy:
        endpoint(proxy.address)

        with ObjectFile(address) as file:
            assert b"".join(iter(lambda: file.read(1 << 20), b"")) == LARGE[:size]
        assert next(count) > flipped


def test_bytes_that_are_always_flipped_are_an_error(bucket, moto_port, endpoint, impatient):
    objects.put(f"{bucket}/data", LARGE)
    with Proxy(moto_port, first(999, "flip")) as proxy:
        endpoint(proxy.address)
        for start, length in itertools.product([0, 1, 4_000_000], [1, 2, 3, 4, 1000, 100_001]):
            with pytest.raises(DownloadError, match=r"'data' in bucket .*two reads"):
                read_range(f"{bucket}/data", start, start + length)


def test_a_list_with_a_flipped_bit_is_not_believed(bucket, moto_port, endpoint, impatient):
    names = [f"{bucket}/file-{number:02}.txt" for number in range(40)]
    for name in names:
        objects.put(name, b"x")
    for count, ends in [(1, nullcontext()), (99, pytest.raises(DownloadError, match="list"))]:
        with Proxy(moto_port, first(count, "flip")) as proxy:
            endpoint(proxy.address)

            with ends:
                assert objects.list_below(bucket) == names


@pytest.mark.parametrize("fault", ["cut", "flip"])
def test_a_long_list_continues_where_it_failed(use_server, impatient, fault):
    """One page in seventy does not arrive: of the list of 90 pages, a second one is needed."""
    server = use_server("gcs")
    bucket = server.make_bucket(f"pages-{fault}")
    names = [f"{bucket}/folder/{number:04}.txt" for number in range(270)]
    for name in names:
        objects.put(name, b"x")
    count = itertools.count(1)
    with Proxy(server.port, lambda request: fault if next(count) % 70 == 0 else None) as proxy:
        use_server("gcs", proxy.port)

        assert objects.list_below(f"{bucket}/folder") == names
    assert next(count) < 500


def test_a_file_gives_the_same_bytes_as_the_object_wherever_it_is_read(bucket):
    data = np.random.default_rng(6).bytes(2 * BLOCK_BYTES + 12_345)
    objects.put(f"{bucket}/large", data)

    with ObjectFile(f"{bucket}/large") as file:
        for start, size in [
            (0, 100),
            (BLOCK_BYTES - 10, 20),
            (5, 2 * BLOCK_BYTES),
            (2 * BLOCK_BYTES, 99_999),
        ]:
            file.seek(start)
            parts = []
            while size and (part := file.read(size)):
                parts.append(part)
                size -= len(part)
            found = b"".join(parts)
            assert found == data[start : start + len(found)]
            assert size == 0 or start + len(found) == len(data)
        assert file.seek(0, 2) == len(data)
        assert file.read(1) == b""


def test_an_object_that_is_replaced_while_it_is_read_is_noticed(bucket):
    objects.put(f"{bucket}/large", bytes(2 * BLOCK_BYTES))
    with ObjectFile(f"{bucket}/large") as file:
        file.seek(BLOCK_BYTES)
        file.read(10)
        objects.put(f"{bucket}/large", bytes([1]) * (2 * BLOCK_BYTES))
        file.seek(0)

        with pytest.raises(DownloadError, match="412"):
            file.read(10)


def test_the_time_of_an_object_is_that_of_its_last_change(bucket):
    objects.put(f"{bucket}/new", b"text")

    found = objects.stat(f"{bucket}/new")
    for moment in (found.modified_ns, found.stamp):
        assert abs(time.time() - moment / 10**9) < 3600  # clocks of other machines may be wrong


def test_a_missing_object_or_bucket_is_named(bucket):
    with pytest.raises(DownloadError, match=r"no 'not/there' in bucket 'bucket-"):
        objects.stat(f"{bucket}/not/there")
    with pytest.raises(DownloadError, match=r"'key' in bucket 'no-such-bucket'.*404"):
        objects.list_below("s3://no-such-bucket/key")


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(ValueError, match="environment") as caught:
        objects.stat("s3://key:secret@bucket/thing")
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 1000, 300_000])
def test_an_upload_arrives_whole(bucket, tmp_path, size):
    (tmp_path / "file").write_bytes(DATA[:size])

    objects.upload(tmp_path / "file", f"{bucket}/up")

    found = objects.read_all(f"{bucket}/up", at_most=size)
    assert hashlib.sha256(found).digest() == hashlib.sha256(DATA[:size]).digest()


def test_a_large_file_is_uploaded_in_pieces_and_compared(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "MULTIPART", 100_000)
    (tmp_path / "file").write_bytes(DATA)

    objects.upload(tmp_path / "file", f"{bucket}/up")

    assert objects.read_all(f"{bucket}/up", at_most=len(DATA)) == DATA


def test_an_upload_spoilt_on_its_way_is_an_error(bucket, tmp_path, moto_port, endpoint, impatient):
    (tmp_path / "file").write_bytes(DATA)
    with Proxy(moto_port, first(99, "spoil", "PUT")) as proxy:
        endpoint(proxy.address)

        with pytest.raises((PrepareError, DownloadError), match="up"):
            objects.upload(tmp_path / "file", f"{bucket}/up")


@pytest.mark.parametrize("store", ["with conditions", "without conditions"])
def test_only_one_of_two_writers_wins(bucket, moto_port, endpoint, store):
    blind = (lambda request: "blind") if store == "without conditions" else (lambda request: None)
    with Proxy(moto_port, blind) as proxy:
        endpoint(proxy.address)
        objects.put_if(f"{bucket}/manifest", b"first", objects.NEW)
        objects.put_if(f"{bucket}/manifest", b"first", objects.NEW)  # a retry

        with pytest.raises(LockedError, match="another writer"):
            objects.put_if(f"{bucket}/manifest", b"second", objects.NEW)
        assert objects.read_all(f"{bucket}/manifest", at_most=10) == b"first"


@pytest.mark.parametrize("fault", ["503", "cut", "lost"])
def test_a_request_whose_answer_is_lost_is_repeated(stored, moto_port, endpoint, repeats, fault):
    def removed():
        objects.delete(stored)
        objects.delete_all([stored])
        return objects.find(stored)

    known = objects.stat(stored)
    with Proxy(moto_port) as proxy:
        endpoint(proxy.address)
        for operation, expected in (
            (lambda: objects.find(stored), known),
            (lambda: objects.read_all(stored, at_most=1 << 20), DATA),
            (lambda: [r.key for r in objects.list_records(stored[:-9])], ["folder/data.bin"]),
            (lambda: objects.list_folder(stored[:-9])[0][0].size, len(DATA)),
            (lambda: objects.put_if(stored, b"new", known.etag), None),
            (lambda: objects.read_all(stored, at_most=1 << 20), b"new"),
            (removed, None),
        ):
            before = len(proxy.requests)
            left = itertools.chain([fault], itertools.repeat(None))
            proxy.faults = lambda request, left=left: next(left)
            assert operation() == expected
            assert len(proxy.requests) > before


def test_what_obstore_has_not_repeated_is_repeated_here():
    """Such as a removal over a connection that the store has closed."""
    sent = "Generic S3 error: Error performing POST http://127.0.0.1/b?delete in 13.7ms{} - {}"
    broken = "HTTP error: error sending request"
    for tries, kind in (("", "wrong"), (", after 9 retries, max_retries: 9", "failed")):
        failure = store_requests._failure("failed", OSError(sent.format(tries, broken)))
        assert (failure.kind, failure.text) == (kind, "error sending request")


def test_an_object_that_is_far_too_large_is_not_brought_here_to_be_compared(bucket):
    objects.put(f"{bucket}/manifest", bytes((1 << 26) + 2))

    with pytest.raises(DownloadError, match="has 67,108,866 bytes; at most 67,108,865"):
        objects.put_if(f"{bucket}/manifest", b"x", objects.NEW)


def test_of_many_writers_at_once_exactly_one_wins(bucket):
    def write(number):
        try:
            objects.put_if(f"{bucket}/manifest", b"writer %d" % number, objects.NEW)
        except LockedError:
            return None
        return b"writer %d" % number

    with ThreadPoolExecutor(8) as threads:
        winners = [won for won in threads.map(write, range(8)) if won]

    assert winners == [objects.read_all(f"{bucket}/manifest", at_most=100)]


def test_a_read_is_whole_across_blocks_so_that_pyarrow_takes_it(bucket):
    """pyarrow takes a read that is short for a damaged file."""
    pyarrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    column = [np.random.default_rng(n).bytes(1 << 20) for n in range(9)]
    written = io.BytesIO()
    pq.write_table(pyarrow.table({"data": column}), written, compression="none")
    objects.put(f"{bucket}/large.parquet", written.getvalue())

    with ObjectFile(f"{bucket}/large.parquet") as file:
        assert len(file.read(2 * BLOCK_BYTES + 5)) == 2 * BLOCK_BYTES + 5
        assert pq.read_table(file)["data"].to_pylist() == column


def test_without_obstore_an_address_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(MissingExtraError, match="s3:// addresses") as missing:
        objects.find("s3://bucket/key")
    assert missing.value.hint == 'pip install "tokenmill[stores]"'
