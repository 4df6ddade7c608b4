"""Attacks on `tokenmill view`: other hosts, other paths, odd requests, scripts in names and text.

The real command serves a dataset whose folder, input file and documents have names and texts that
are scripts. Every answer must be one of ours, hold no markup of others and nothing of other files;
after all of them the server must still answer, in little memory, and have printed nothing.
"""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from faults.forks import ROOT
from faults.mutate import mutate
from faults.tally import Tally
from pages.read import Read

import tokenmill

SCRIPT = "<script>alert(1)<script>"
MARKUP = "<img src=x onerror=alert(1)>"
SECRET = "what-is-in-another-file"
HANGS_AFTER = 60.0  # seconds
MOST_MEMORY = 600 << 20  # bytes
PAGES = ("", "documents", "document", "batch", "longest", "search", "random")
FILES = ("style.css", "script.js", "icon.svg")
OTHER_PATHS = (
    "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt",
    "/....//secret.txt", "/..\\secret.txt", "/..%5csecret.txt", "/%252e%252e/secret.txt",
    "/style.css/../../secret.txt", "/style.css%00.txt", "/%00", "/etc/passwd", "//etc/passwd",
    "///secret.txt", "/file:///etc/passwd", "/dataset_metadata.json", "/train/shard_00000.bin",
    "/.git/config", "/server.py", "/files/style.css", "/~root", "/" + "a" * 5000, "/" + "%2e" * 999,
    "/\u2025/secret.txt", "/;/..", "/.", "/..",
)  # fmt: skip
ODD_FIELDS = (
    "0", "-1", "9" * 19, "9" * 400, "1e9", "0x10", "nan", "", SCRIPT, MARKUP, '"><b>', "\x00",
    "javascript:1", "\ud800", "\u202e", "%0d%0aSet-Cookie: a=b", "../../etc/passwd", "' OR 1=1",
    "a" * 2000,
)  # fmt: skip
FIELD_NAMES = (
    *("n", "at", "split", "q", "step", "seed", "order", "rank", "world_size", "batch_size"),
    *("block_size", "phase", "page", "first", "row", "x"),
)
METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "G\x00T")
HOSTS = ("evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil:{}", "[::1]:{}", "", "\x00")
HEADERS = (
    "Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site",
    "Host: evil.example", "Sec-Fetch-Site: same-site",
)  # fmt: skip


def attack_view(tally: Tally, scratch: Path, most: int) -> None:
    """`most` requests that are made at random, and all that are listed here."""
    chance = random.Random(f"{tally.seed} attacks")
    with _viewing(_make(scratch)) as (process, port):
        target = Target(tally, port)
        for path in OTHER_PATHS:
            target.ask("other paths", path)
        for method in METHODS:
            target.ask("methods", "/", method=method, allowed=(400, 405, 501))
        for host in HOSTS:
            target.ask("hosts", "/", host=host.format(port), allowed=(400, 403))
        for header in HEADERS:
            target.ask("hosts", "/", more=f"{header}\r\n", allowed=(400, 403))
        _ask_too_much(target)
        for _ in range(most):
            target.ask("odd fields", _odd_address(chance))
        for _ in range(most):
            sound = f"GET {_odd_address(chance)[:200]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
            target.send("damaged requests", mutate(sound.encode("utf-8", "replace"), chance))
        target.ask("at the end", "/", allowed=(200,))
        status = Path(f"/proc/{process.pid}/status").read_text()
        used = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
        if used > MOST_MEMORY:
            tally.fail("at the end", f"{used:,} bytes of memory were used")
        process.send_signal(signal.SIGTERM)  # SIGINT is ignored in the background of a shell
        try:
            _, errors = process.communicate(timeout=HANGS_AFTER)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # prints where each thread is
            _, errors = process.communicate()
        if process.returncode != 0 or errors != "stopped\n":
            tally.fail("at the end", f"exit code {process.returncode}, printed {errors[-3000:]}")


class Target:
    """The server, and the count of what it answered."""

    def __init__(self, tally: Tally, port: int) -> None:
        self.tally, self.port = tally, port

    def ask(
        self,
        kind: str,
        path: str,
        *,
        method: str = "GET",
        host: str | None = None,
        more: str = "",
        allowed: tuple[int, ...] = (200, 302, 303, 307, 400, 403, 404, 414),
    ) -> None:
        """One request; its answer must have one of these states."""
        host = f"127.0.0.1:{self.port}" if host is None else host
        request = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
        self.send(kind, request.encode("utf-8", "replace"), allowed)

    def send(self, kind: str, request: bytes, allowed: tuple[int, ...] | None = None) -> None:
        """The same, byte by byte; without `allowed` no answer is an answer too."""
        self.tally.add(kind, "requests")
        why = ""
        with socket.create_connection(("127.0.0.1", self.port), timeout=HANGS_AFTER) as wire:
            with contextlib.suppress(OSError):  # it may refuse before it has read all
                wire.sendall(request)
                wire.shutdown(socket.SHUT_WR)
            try:
                answer = http.client.HTTPResponse(wire)
                answer.begin()
                why = self._wrong(answer, answer.read(), allowed)
            except (http.client.HTTPException, ConnectionError) as error:
                if allowed is not None:
                    why = repr(error)
            except TimeoutError:
                why = "no answer"
        if why:
            self.tally.fail(kind, f"{request[:300]!r}: {why}")
        else:
            self.tally.add(kind, "answered or closed")

    def _wrong(
        self, answer: http.client.HTTPResponse, body: bytes, allowed: tuple[int, ...] | None
    ) -> str:
        """What is wrong with an answer."""
        if answer.status >= 500 and answer.status not in (501, 505):
            return f"status {answer.status}"
        if allowed is not None and answer.status not in allowed:
            return f"status {answer.status}, expected one of {allowed}"
        if SECRET.encode() in body or b"root:x:" in body:
            return "it holds another file"
        policy = answer.headers.get("Content-Security-Policy", "")
        if "default-src 'none'" not in policy or "Set-Cookie" in answer.headers:
            return "its headers are not ours"
        if "html" in answer.headers.get("Content-Type", ""):
            return _foreign_markup(body.decode())
        return ""


def _foreign_markup(page: str) -> str:
    read = Read(page)
    for tag, attributes in read.tags:
        if tag in ("iframe", "object", "embed", "base", "meta") and "http-equiv" in attributes:
            return f"it holds <{tag}>"
        if tag == "script" and attributes.get("src") != "script.js":
            return "it holds a script that is not ours"
        if tag == "img":
            return "it holds an image"
        for name in attributes:
            if name.startswith("on"):
                return f"it holds the attribute {name}"
        for name in ("href", "src", "action"):
            if ":" in (attributes.get(name) or "").split("?")[0]:
                return f"it links to {attributes[name]!r}"
    return ""


def _odd_address(chance: random.Random) -> str:
    fields = [
        f"{chance.choice(FIELD_NAMES)}={quote(chance.choice(ODD_FIELDS), errors='replace')}"
        for _ in range(chance.choice((1, 2, 3, 40)))
    ]
    return f"/{chance.choice((*PAGES, *PAGES, *FILES, 'none', SCRIPT))}?{'&'.join(fields)}".replace(
        " ", "%20"
    )


def _ask_too_much(target: Target) -> None:
    """Much of everything; and many who connect and say nothing, while others ask."""
    target.send("too much", b"GET /" + b"a" * 1_000_000)
    target.send("too much", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n")
    target.send("too much", b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n")
    target.send("too much", b"\r\n" * 10_000)
    more = "Content-Length: 99999999999\r\nTransfer-Encoding: chunked\r\n"
    target.ask("too much", "/", more=more)
    silent = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(100)]
    target.ask("too much", "/", allowed=(200,))
    for wire in silent:
        wire.close()


def _make(scratch: Path) -> Path:
    """A dataset that is called by markup, made of a file that is called by a script."""
    (scratch / "secret.txt").write_text(SECRET)
    source = scratch / f"{SCRIPT}.jsonl"
    texts = [f"{SCRIPT} {MARKUP} {n} \x1b[31m &lt; \u202e" for n in range(50)]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    folder = scratch / MARKUP
    tokenmill.prepare(source, folder, tokenizer="bytes", workers=1, val_fraction=0.2)
    return folder


@contextlib.contextmanager
def _viewing(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tokenmill", "view", str(folder), "--no-browser"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield process, int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1])
    finally:
        process.kill()
        process.wait()
