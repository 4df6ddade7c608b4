"""Real servers, buckets in them, and ways to go to them through a proxy."""

import itertools
import os

import pytest
from stores import servers

from tokenmill.base.retry import Retry
from tokenmill.stores import store_requests

pytest.importorskip("obstore", reason="obstore is not installed")

KINDS = ("moto", "gcs", "azurite")
"""One server for each kind of store that can be written to."""
_buckets = itertools.count()
_running = {}


def running(kind, tmp_path_factory):
    if kind not in _running:
        _running[kind] = servers.start(kind, tmp_path_factory.mktemp(kind))
    return _running[kind]


@pytest.fixture(scope="session", autouse=True)
def _end_servers():
    yield
    for server in _running.values():
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="session")
def moto_port(tmp_path_factory):
    return running("moto", tmp_path_factory).port


@pytest.fixture(params=KINDS)
def store(request, tmp_path_factory, monkeypatch):
    """A server of each kind, reached as a user would reach it."""
    server = running(request.param, tmp_path_factory)
    use(server, monkeypatch)
    return server


@pytest.fixture
def use_server(tmp_path_factory, monkeypatch):
    """Call with the name of a server, and perhaps the port of a proxy before it."""

    def start_and_use(kind, port=None):
        server = running(kind, tmp_path_factory)
        use(server, monkeypatch, port)
        return server

    return start_and_use


def use(server, monkeypatch, port=None):
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(name)
    for name, value in server.variables(port).items():
        monkeypatch.setenv(name, value)


def new_bucket(server):
    return server.make_bucket(f"bucket-{os.getpid()}-{next(_buckets)}")


@pytest.fixture
def store_bucket(store):
    """The address of a new, empty bucket in a store of each kind."""
    return new_bucket(store)


@pytest.fixture
def endpoint(moto_port, monkeypatch):
    """Call with an address to go through there; without, straight to the server."""

    def through(address=f"http://127.0.0.1:{moto_port}"):
        use(_running["moto"], monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)

    through()
    return through


@pytest.fixture
def bucket(endpoint):
    """The address of a new, empty bucket."""
    return new_bucket(_running["moto"])


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    """A TLS context for a proxy, and the authority that a client has to trust."""
    return servers.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def repeats(monkeypatch):
    """Repeat at once, and wait for the answer of a busy machine."""
    monkeypatch.setattr(store_requests, "RETRY", Retry(attempts=3, first_wait=0.01))


@pytest.fixture
def impatient(monkeypatch):
    """Give up soon and repeat at once: what is tested is what happens then."""
    quick = Retry(attempts=3, first_wait=0.01, timeout=0.7)
    monkeypatch.setattr(store_requests, "RETRY", quick)
