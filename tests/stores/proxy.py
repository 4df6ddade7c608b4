"""A proxy in front of an S3 server that does what networks and overloaded stores do.

`faults` is asked about every request and says what becomes of it:
    None    it is passed on
    "503"   the answer is 503 SlowDown
    "empty" the answer is that of a list without objects
    "403"   the answer is 403, without a body
    "stall" the answer begins and then nothing comes
    "cut"   the answer ends in the middle of its body
    "lost"  the request is carried out, and the connection ends without an answer
    "flip"  one bit of the body of the answer is another
    "spoil" one bit of the body of the request is another
    "whole" a range was asked for and everything is sent, as 200
    "blind" the conditions of the request are removed
"""

import asyncio
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Headers = list[tuple[bytes, bytes]]


@dataclass
class Request:
    method: str
    path: str
    headers: Headers
    body: bytes


@dataclass
class Proxy:
    """Runs in a thread of its own until closed."""

    upstream: int
    faults: Callable[[Request], str | None] = lambda request: None
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"

    def __enter__(self) -> "Proxy":
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def address(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.host}:{self.port}"

    def _serve(self, ready: threading.Event) -> None:
        async def main() -> None:
            self._stop = asyncio.Event()
            server = await asyncio.start_server(self._client, self.host, 0, ssl=self.tls)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self._loop.run_until_complete(main())

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split(" ", 2)
                headers = await read_headers(reader)
                if get(headers, b"expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(get(headers, b"content-length") or 0))
                request = Request(method, path, headers, body)
                self.requests.append(request)
                if not await self._answer(request, self.faults(request), writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, request: Request, fault: str | None, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection may be used again."""
        if fault == "503":
            text = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            await writer.drain()
            return True
        if fault == "empty":
            text = b"<ListBucketResult></ListBucketResult>"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            await writer.drain()
            return True
        if fault == "403":
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return True
        if fault == "spoil":
            request.body = flipped(request.body)
        status, headers, body = await self._ask(request, fault)
        if fault == "lost":
            return False
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        writer.write(status + head + b"\r\n")
        if fault == "flip":
            body = flipped(body)
        if fault in ("stall", "cut"):
            writer.write(body[: len(body) // 2])
            await writer.drain()
            if fault == "stall":
                await asyncio.sleep(3600)
            return False
        writer.write(b"" if request.method == "HEAD" else body)
        await writer.drain()
        return True

    async def _ask(self, request: Request, fault: str | None) -> tuple[bytes, Headers, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        left_out = {b"connection", b"expect"}
        left_out |= {b"range"} if fault == "whole" else set()
        left_out |= {b"if-none-match", b"if-match"} if fault == "blind" else set()
        kept = [(name, value) for name, value in request.headers if name.lower() not in left_out]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        line = f"{request.method} {request.path} HTTP/1.1\r\n".encode()
        writer.write(line + head + b"Connection: close\r\n\r\n" + request.body)
        status = await reader.readline()
        headers = await read_headers(reader)
        body = await reader.read() if request.method != "HEAD" else b""
        writer.close()
        kept = [(n, v) for n, v in headers if n.lower() not in (b"connection", b"content-length")]
        length = get(headers, b"content-length") or b"%d" % len(body)
        return status, [*kept, (b"Content-Length", length)], body


async def read_headers(reader: asyncio.StreamReader) -> Headers:
    headers = []
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        headers.append((name.strip(), value.strip()))
    return headers


def get(headers: Headers, name: bytes) -> bytes | None:
    return next((value for found, value in headers if found.lower() == name), None)


def flipped(body: bytes) -> bytes:
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :] if body else body
