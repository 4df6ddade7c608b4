"""A real S3 server (moto) in a process of its own, and a bucket in it."""

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tokenmill.base.retry import Retry
from tokenmill.storage import store_client, store_requests

pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("moto", reason="moto is not installed")

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "not-a-real-key",
    "AWS_SECRET_ACCESS_KEY": "not-a-real-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_buckets = itertools.count()


@pytest.fixture(scope="session")
def moto_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **CREDENTIALS},
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert server.poll() is None, "the moto server ended"
            assert time.monotonic() < deadline, "the moto server does not come up"
            time.sleep(0.05)
    yield port
    server.kill()
    server.wait()


@pytest.fixture
def endpoint(moto_port, monkeypatch):
    """Call with an address to go through there; without, straight to the server."""

    straight = f"http://127.0.0.1:{moto_port}"

    def use(address=straight):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        store_requests.forget_stores()

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    use()
    yield use
    store_requests.forget_stores()


@pytest.fixture
def bucket(endpoint):
    """The address of a new, empty bucket."""
    name = f"bucket-{next(_buckets)}"
    make = urllib.request.Request(
        f"{os.environ['AWS_ENDPOINT_URL']}/{name}",
        b"",
        {"Content-Type": "application/xml"},
        method="PUT",
    )
    urllib.request.urlopen(make).close()
    return f"s3://{name}"


@pytest.fixture
def impatient(monkeypatch):
    """Give up soon and repeat at once: what is tested is what happens then."""
    quick = Retry(attempts=3, first_wait=0.01, timeout=0.7)
    monkeypatch.setattr(store_client, "RETRY", quick)
