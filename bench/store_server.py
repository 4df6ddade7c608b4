"""A store on this machine that takes 50 ms for each request, and counts requests and bytes.

It answers HEAD and GET as S3 does, for paths /bucket/key, over TLS: `certificates` makes the
certificate, and who trusts its authority sets SSL_CERT_FILE and AWS_CA_BUNDLE to it. Keys are files
of a folder. Below `large/` shards of 200 MB and their block hashes are made when they are asked
for, so that a dataset of 10^12 tokens takes no disk.

    python bench/store_server.py FOLDER
"""

import functools
import hashlib
import json
import re
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import xxhash

SECONDS_A_REQUEST = 0.05
TOKENS_PER_SHARD = 100_000_000
SHARDS = 10_000
BLOCK = 1 << 20
BLOCKS = -(-2 * TOKENS_PER_SHARD // BLOCK)
ENTRY = 16 + 8 * BLOCKS
"""Bytes of a shard in the file of block hashes: its own hash, and those of its blocks."""


def digest_of(number: int) -> str:
    """A name for a shard of the large dataset; nobody fetches one whole."""
    return f"{number:032x}"


IDS = np.random.default_rng(5).integers(0, 256, BLOCK // 2, dtype=np.uint16).tobytes()


def made_block(block: int) -> bytes:
    """The bytes of a block of the large dataset: the same for all shards, the last one shorter."""
    return IDS[: 2 * TOKENS_PER_SHARD - block * BLOCK]


HASHES = np.array([xxhash.xxh3_64_intdigest(made_block(block)) for block in range(BLOCKS)], "<u8")


class Store:
    """What is served: files of a folder, and the shards and block hashes that are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent, self.requests, self.lock = 0, 0, threading.Lock()

    def size(self, key: str) -> int | None:
        """Bytes of an object; None where there is none."""
        if (path := self.folder / key).is_file():
            return path.stat().st_size
        if re.fullmatch(r"large/train/shard_\d+\.bin", key):
            return 2 * TOKENS_PER_SHARD
        return 16 + SHARDS * ENTRY if key.startswith("large/block_hashes-") else None

    @functools.cache  # noqa: B019 - one store a process
    def etag(self, key: str) -> str:
        """As S3 names an object: by the MD5 of its bytes."""
        path = self.folder / key
        return hashlib.md5(path.read_bytes() if path.is_file() else key.encode()).hexdigest()

    def read(self, key: str, start: int, stop: int) -> bytes:
        """Some bytes of an object."""
        if (self.folder / key).is_file():
            with (self.folder / key).open("rb") as file:
                file.seek(start)
                return file.read(stop - start)
        if re.fullmatch(r"large/train/shard_\d+\.bin", key):
            blocks = range(start // BLOCK, -(-stop // BLOCK))
            made = b"".join(map(made_block, blocks))
            return made[start - blocks[0] * BLOCK : stop - blocks[0] * BLOCK]
        number = (start - 16) // ENTRY
        made = bytes.fromhex(digest_of(number)) + HASHES.tobytes()
        return made[: stop - start]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20
    store: Store

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        store, key = self.store, self.path.partition("?")[0].lstrip("/").partition("/")[2]
        if self.path == "/counts":
            return self.answer(200, json.dumps([store.requests, store.sent]).encode(), {})
        time.sleep(SECONDS_A_REQUEST)
        if (size := store.size(key)) is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
        asked = self.headers.get("Range", f"bytes=0-{size - 1}").removeprefix("bytes=")
        first, last = asked.split("-")
        start, stop = int(first), min(int(last) + 1, size) if last else size
        data = store.read(key, start, stop) if self.command == "GET" else b""
        with store.lock:
            store.requests, store.sent = store.requests + 1, store.sent + len(data)
        headers = {"ETag": f'"{store.etag(key)}"', "Content-Length": str(stop - start)}
        headers["Last-Modified"] = "Mon, 02 Nov 2026 00:00:00 GMT"
        if "Range" in self.headers:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return self.answer(206 if "Range" in self.headers else 200, data, headers)

    def answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Each connection in a thread of its own, and so is its handshake."""

    request_queue_size = 128
    context: ssl.SSLContext

    def get_request(self):
        connection, address = super().get_request()
        options = {"server_side": True, "do_handshake_on_connect": False}
        return self.context.wrap_socket(connection, **options), address

    def handle_error(self, *_: object) -> None:
        """Clients that end close their connections as they like."""


def certificates(folder: Path) -> Path:
    """Make an authority, and a certificate that it signs; the file of the authority."""
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=bench -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 30 -extfile names -out server.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder / "ca.pem"


def main() -> None:
    folder = Path(sys.argv[1])
    Handler.store = Store(folder)
    Server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Server.context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
