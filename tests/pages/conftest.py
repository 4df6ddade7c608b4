import contextlib
import http.client
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from look.build import EOT, documents, encoded, ours
from pages.read import Read

from tokenmill.pages.routes import Site
from tokenmill.pages.server import Server

SCRIPT = b"<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">\n"
ODD = "tab\there, euro \u20ac, bell \a, turn \u202e, flag \U0001f1f3\U0001f1f4\n".encode()


class Client:
    """Requests to one server, each as it is."""

    def __init__(self, server: Server) -> None:
        self.server, self.port = server, server.server_port

    def ask(self, path: str, method: str = "GET", **headers: str):
        """(status, headers, body); Host is ours unless given, None leaves it out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in ({"Host": f"127.0.0.1:{self.port}"} | headers).items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def page(self, path: str, status: int = 200) -> Read:
        found, _, body = self.ask(path)
        assert found == status, body[:500]
        return Read(body.decode())


@contextlib.contextmanager
def serving(path, **settings) -> Iterator[Client]:
    """A server on a free port, for as long as the block lasts."""
    with Server(Site(str(path), **settings)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def texts() -> list[bytes]:
    """118 documents of different lengths, one a script and one of odd characters."""
    made = documents(116, seed=5, words=(5, 200))
    return [*made[:2], SCRIPT, ODD, *made[2:]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory, texts):
    """A dataset of ours with two splits, made by hand."""
    train, val = encoded(texts), encoded(documents(12, seed=6))
    return ours(tmp_path_factory.mktemp("pages") / "corpus", {"train": train, "val": val})


@pytest.fixture(scope="session")
def stream(texts) -> np.ndarray:
    """The ids of train as one axis, made without our reader."""
    return np.concatenate([np.append(ids, EOT) for ids in encoded(texts)])


@pytest.fixture(scope="session")
def client(folder):
    with serving(folder) as found:
        yield found
