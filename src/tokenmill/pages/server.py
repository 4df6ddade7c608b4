"""`tokenmill view`: the site over HTTP, for this machine and one person.

docs/guides/look.md ("In a browser") says what is refused and why.
"""

import re
import sys
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import urlsplit

from tokenmill.base.system import may_reuse_port
from tokenmill.errors import TokenmillError
from tokenmill.pages.html import packaged_file
from tokenmill.pages.routes import Site

ADDRESS = "127.0.0.1"
FILES = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
TEXT = "text/plain; charset=utf-8"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serves one site on a port of the loopback interface."""

    daemon_threads = True
    allow_reuse_address = may_reuse_port()
    server_bind = TCPServer.server_bind  # HTTPServer asks for the name of the machine: seconds

    def __init__(self, site: Site, port: int = 0) -> None:
        self.site = site
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise TokenmillError(
                f"port {port} of {ADDRESS} cannot be used: {error.strerror or error}",
                hint="leave --port out for a free one",
            ) from None
        self.server_port = self.server_address[1]
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error of ours; anything else is shown as usual."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version = "tokenmill"
    sys_version = ""
    timeout = 30

    def __getattr__(self, name: str) -> Any:
        # The base class looks for a method by the verb of the request.
        if name in ("do_GET", "do_HEAD"):
            return self._answer
        if name.startswith("do_"):
            words = b"GET and HEAD only.\n"
            return partial(self._send, HTTPStatus.METHOD_NOT_ALLOWED, words, Allow="GET, HEAD")
        raise AttributeError(name)

    def _answer(self) -> None:
        if not self._is_ours():
            words = b"This page is for the browser of this machine only.\n"
            self._send(HTTPStatus.FORBIDDEN, words)
            return
        parts = urlsplit(self.path)
        name = parts.path.removeprefix("/")
        if name in FILES:
            self._send(HTTPStatus.OK, packaged_file(name), kind=FILES[name])
            return
        page, document = self.server.site.render(name, parts.query)
        where = {"Location": page.redirect} if page.redirect else {}
        body = b"" if page.redirect else document.encode("utf-8", "replace")
        self._send(HTTPStatus(page.status), body, kind="text/html; charset=utf-8", **where)

    def _is_ours(self) -> bool:
        """True if the request was made for this address, by this site or by hand."""
        hosts = self.headers.get_all("Host") or []
        origins = self.headers.get_all("Origin") or []
        sites = self.headers.get_all("Sec-Fetch-Site") or []
        ours = {f"http://{host}" for host in self.server.hosts}
        return (
            len(hosts) == 1
            and hosts[0].lower() in self.server.hosts
            and all(origin in ours for origin in origins)
            and all(site in ("same-origin", "none") for site in sites)
            and self.path.startswith("/")
        )

    def _send(self, status: HTTPStatus, body: bytes, *, kind: str = TEXT, **more: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (HEADERS | more).items():
            self.send_header(name, re.sub(r"[\r\n]", "", value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that the parser refuses: in plain text, with the same headers."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(status, f"{status.phrase}\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold what is searched for."""
