"""A small Hugging Face hub on loopback, with its store of large files, and every fault we fear.

Large files are reached through a redirect to the store, as on the real hub: another origin, signed.
A fault is laid on a path for some number of requests; after that the server is honest again.
"""

import contextlib
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from hub.fake_uploads import LARGE, SIGNATURE, Uploads

API = "/api/(?:datasets|models)"


@dataclass
class Fault:
    kind: str
    times: float = 1
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    at: int = 700
    body: bytes = b"{}"
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@dataclass
class Request:
    server: str
    method: str
    path: str
    headers: dict[str, str]


class FakeHub:
    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.refs: dict[tuple[str, str], str] = {}  # (repo, revision) -> commit
        self.trees: dict[tuple[str, str], dict[str, bytes]] = {}  # (repo, commit) -> files
        self.faults: dict[str, list[Fault]] = {}
        self.refusals: dict[str, tuple[int, str]] = {}  # repo -> status, X-Error-Code
        self.requests: list[Request] = []
        self.objects: dict[str, bytes] = {}  # LFS objects by sha256
        self.page_size = 0  # of the tree; 0: all at once
        self.latency = 0.0  # seconds before each answer, for benchmarks
        self.lock = threading.Lock()
        self.hub = _serve(_HubHandler, self)
        self.store = _serve(_StoreHandler, self)
        self.endpoint = f"http://127.0.0.1:{self.hub.server_port}"
        self.store_address = f"http://127.0.0.1:{self.store.server_port}"

    def commit(self, repo: str, files: dict[str, bytes], revision: str = "main") -> str:
        """A new commit with exactly these files; the revision moves to it."""
        state = "".join(f"{p} {hashlib.sha256(d).hexdigest()}\n" for p, d in sorted(files.items()))
        commit = hashlib.sha1(f"{repo}\n{state}".encode()).hexdigest()
        self.trees[repo, commit] = dict(files)
        self.refs[repo, revision] = self.refs[repo, commit] = commit
        self.repos[repo] = dict(files)
        return commit

    def fault(self, path: str, kind: str, **settings: object) -> Fault:
        """Lay a fault on a file (`x.bin`), or on `api:info` or `api:tree`."""
        fault = Fault(kind, **settings)  # type: ignore[arg-type]
        self.faults.setdefault(path, []).append(fault)
        return fault

    def next_fault(self, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults.get(path, []):
                if fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def bodies(self, path: str | None = None) -> list[Request]:
        """Requests for file contents that reached the one who has them."""
        return [
            r
            for r in self.requests
            if r.method == "GET"
            and (r.server == "store" or "/resolve/" in r.path)
            and (path is None or unquote(urlsplit(r.path).path).endswith("/" + path))
        ]

    def stop(self) -> None:
        for faults in self.faults.values():
            for fault in faults:
                fault.release.set()
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()


@contextlib.contextmanager
def fake_hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    try:
        yield hub
    finally:
        hub.stop()


def _serve(handler: type, hub: FakeHub) -> ThreadingHTTPServer:
    bound = type(handler.__name__, (handler,), {"fake": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), bound)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeHub
    name = ""

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(20)

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle_one_request()

    def note(self) -> None:
        time.sleep(self.fake.latency)
        self.fake.requests.append(
            Request(
                self.name, self.command, self.path, {k.lower(): v for k, v in self.headers.items()}
            )
        )

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value: object, status: int = 200, **headers: str) -> None:
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def fail(self, status: int, code: str, message: str = "") -> None:
        self.answer(status, b"{}", X_Error_Code=code, X_Error_Message=message or code)

    def drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)

    def send_file(self, path: str, data: bytes, **headers: str) -> None:
        """A body, honest or not."""
        fault = self.fake.next_fault(path)
        kind = fault.kind if fault else ""
        if fault and kind == "status":
            self.answer(
                fault.status,
                b"not now",
                **{k.replace("-", "_"): v for k, v in fault.headers.items()},
            )
            return
        if kind == "refuse":
            self.drop()
            return
        body = data
        status = 200
        if match := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            first, last = int(match[1]), min(int(match[2]), len(data) - 1)
            body = data[first : last + 1]
            status = 206
            headers["Content_Range"] = f"bytes {first}-{last}/{len(data)}"
        at = fault.at if fault else 0
        if kind == "flip":
            body = body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]
        elif kind == "short":
            body = body[:at]
        elif kind == "long":
            body = body + b"\0" * 9
        if kind in ("cut", "stall", "hold"):
            assert fault is not None
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:at])
            self.wfile.flush()
            fault.reached.set()
            if kind != "cut":
                fault.release.wait(15)
            self.drop()
            return
        self.answer(status, body, **headers)


class _StoreHandler(_Handler):
    """Large files at signed addresses: GET /REPO/PATH?SIGNATURE, and PUT for uploads."""

    name = "store"

    def do_GET(self) -> None:
        self.note()
        parts = urlsplit(self.path)
        oid, _, path = parts.path.lstrip("/").partition("/")
        data = self.fake.objects.get(oid)
        if SIGNATURE not in parts.query or data is None:
            self.answer(403, b"signature")
            return
        self.send_file(unquote(path), data)

    def do_PUT(self) -> None:
        self.note()
        data = self.rfile.read(int(self.headers["Content-Length"]))
        oid = urlsplit(self.path).path.lstrip("/")
        if hashlib.sha256(data).hexdigest() != oid:
            self.answer(400, b"other bytes")
            return
        self.fake.objects[oid] = data
        self.answer(200)


class _HubHandler(Uploads, _Handler):
    """The hub proper."""

    name = "hub"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.note()
        parts = urlsplit(self.path)
        if match := re.fullmatch(r"(?:/datasets)?/(.+)/resolve/([^/]+)/(.+)", parts.path):
            self.resolve(match[1], unquote(match[2]), unquote(match[3]))
        elif match := re.fullmatch(rf"{API}/(.+)/tree/([^/]+)", parts.path):
            self.tree(match[1], unquote(match[2]), parse_qs(parts.query))
        elif match := re.fullmatch(rf"{API}/(.+)/revision/([^/]+)", parts.path):
            self.info(match[1], unquote(match[2]))
        elif match := re.fullmatch(rf"{API}/([^/]+/[^/]+)", parts.path):
            self.info(match[1], "main")
        else:
            self.fail(404, "NotFound")

    def find(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if repo in self.fake.refusals:
            self.fail(*self.fake.refusals[repo])
        elif repo not in self.fake.repos:
            self.fail(404, "RepoNotFound")
        elif (repo, revision) not in self.fake.refs:
            self.fail(404, "RevisionNotFound")
        else:
            commit = self.fake.refs[repo, revision]
            return commit, self.fake.trees[repo, commit]
        return None

    def api_fault(self, name: str) -> bool:
        fault = self.fake.next_fault(name)
        if fault is None:
            return False
        if fault.kind == "refuse":
            self.drop()
        elif fault.kind == "body":
            self.answer(200, fault.body, Content_Type="application/json")
        else:
            self.answer(
                fault.status, b"{}", **{k.replace("-", "_"): v for k, v in fault.headers.items()}
            )
        return True

    def info(self, repo: str, revision: str) -> None:
        if self.api_fault("api:info"):
            return
        if found := self.find(repo, revision):
            self.json({"id": repo, "sha": found[0], "siblings": [], "tags": [], "private": False})

    def tree(self, repo: str, revision: str, query: dict[str, list[str]]) -> None:
        if self.api_fault("api:tree"):
            return
        found = self.find(repo, revision)
        if found is None:
            return
        entries = [describe(path, data) for path, data in sorted(found[1].items())]
        size, first = self.fake.page_size, int(query.get("cursor", ["0"])[0])
        headers = {}
        if size and first + size < len(entries):
            here = self.fake.endpoint + urlsplit(self.path).path
            address = f"{here}?recursive=true&cursor={first + size}"
            headers["Link"] = f'<{address}>; rel="next"'
        self.json(entries[first : first + size] if size else entries, **headers)

    def resolve(self, repo: str, revision: str, path: str) -> None:
        found = self.find(repo, revision)
        if found is None:
            return
        commit, files = found
        if path not in files:
            self.fail(404, "EntryNotFound")
            return
        data, entry = files[path], describe(path, files[path])
        if "lfs" in entry:
            oid = str(entry["lfs"]["oid"])
            self.fake.objects[oid] = data
            self.answer(
                302,
                Location=f"{self.fake.store_address}/{oid}/{path}?{SIGNATURE}",
                X_Repo_Commit=commit,
                X_Linked_Etag=f'"{oid}"',
                X_Linked_Size=str(len(data)),
            )
        else:
            self.send_file(path, data, X_Repo_Commit=commit, ETag=f'"{entry["oid"]}"')


def describe(path: str, data: bytes) -> dict:
    """An entry of the tree, as the hub's API gives it."""
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    entry: dict = {"type": "file", "path": path, "size": len(data), "oid": oid}
    if len(data) >= LARGE:
        sha256 = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 127}
    return entry
