"""A small server with the XML interface of Google Cloud Storage, written after its documentation.

No emulator that installs from a package index knows this interface, which obstore speaks. Objects,
ranges, lists in pages, and the conditions: `x-goog-if-generation-match` on writes (0: only where
there is none), `If-Match` on reads.
"""

import email.utils
import hashlib
import itertools
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

PAGE = 3  # entries: lists of tests have several pages
_lock = threading.Lock()
_generations = itertools.count(1_700_000_000_000_001)
_buckets: dict[str, dict[str, tuple[bytes, int]]] = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body leave together

    def log_message(self, *_):
        pass

    def _names(self):
        parts = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(parts.path).lstrip("/").partition("/")
        return bucket, key, dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))

    def _send(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _fail(self, status, code):
        self._send(status, f"<Error><Code>{code}</Code></Error>".encode())

    def do_PUT(self):
        bucket, key, _ = self._names()
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with _lock:
            if not key:
                _buckets.setdefault(bucket, {})
                return self._send(200)
            if bucket not in _buckets:
                return self._fail(404, "NoSuchBucket")
            there = _buckets[bucket].get(key)
            asked = self.headers.get("x-goog-if-generation-match")
            if asked is not None and int(asked) != (there[1] if there else 0):
                return self._fail(412, "PreconditionFailed")
            made = (data, next(_generations))
            _buckets[bucket][key] = made
        return self._send(200, **_headers(made))

    def do_DELETE(self):
        bucket, key, _ = self._names()
        with _lock:
            found = _buckets.get(bucket, {}).pop(key, None)
        return self._send(204) if found else self._fail(404, "NoSuchKey")

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        bucket, key, query = self._names()
        if bucket not in _buckets:
            return self._fail(404, "NoSuchBucket")
        if not key:
            return self._list(bucket, query)
        if (found := _buckets[bucket].get(key)) is None:
            return self._fail(404, "NoSuchKey")
        headers = _headers(found)
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return self._fail(412, "PreconditionFailed")
        data = found[0]
        if asked := self.headers.get("Range"):
            start, _, last = asked.removeprefix("bytes=").partition("-")
            stop = min(int(last) + 1, len(data))
            span = f"bytes {start}-{stop - 1}/{len(data)}"
            return self._send(206, data[int(start) : stop], Content_Range=span, **headers)
        return self._send(200, data, **headers)

    def _list(self, bucket, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("continuation-token") or query.get("start-after") or ""
        entries = {}  # key or folder -> XML
        with _lock:
            objects = sorted(_buckets[bucket].items())
        for key, found in objects:
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folder = prefix + rest.partition(delimiter)[0] + delimiter
                entries[folder] = (
                    f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
                )
            else:
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(found[0])}</Size>"
                    f"<ETag>{escape(_headers(found)['ETag'])}</ETag>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        names = [name for name in entries if name > after]
        page, more = names[:PAGE], len(names) > PAGE
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        text = "".join(entries[name] for name in page) + token
        self._send(200, f"<ListBucketResult>{text}</ListBucketResult>".encode())


def _headers(found):
    data, generation = found
    return {
        "ETag": f'"{hashlib.md5(data + str(generation).encode()).hexdigest()}"',
        "x_goog_generation": str(generation),
        "Last_Modified": email.utils.formatdate(time.time() // 1, usegmt=True),
    }


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
