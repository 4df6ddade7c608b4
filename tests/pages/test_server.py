"""Only the browser of this machine, only to look."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pages.read import Read

ROOT = Path(__file__).parents[2]
ALL_PAGES = ["/", "/documents", "/document?n=2", "/batch", "/longest", "/search?q=mill", "/nothing"]


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"]
)
def test_other_methods_than_get_and_head_are_refused(client, method):
    status, headers, body = client.ask("/documents", method)

    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert b"<" not in body


def test_head_is_get_without_the_body(client):
    got, want = client.ask("/document?n=3", "HEAD"), client.ask("/document?n=3")

    assert got[0] == want[0] == 200
    assert got[2] == b""
    assert got[1]["Content-Length"] == str(len(want[2]))


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil:{}"],
)
def test_a_request_for_another_host_is_refused(client, host):
    host = host and host.format(client.port)

    status, _, body = client.ask("/documents", Host=host)

    assert status == 403
    assert b"<" not in body


def test_localhost_is_this_host_too(client):
    assert client.ask("/", Host=f"localhost:{client.port}")[0] == 200
    assert client.ask("/", Host=f"LOCALHOST:{client.port}")[0] == 200


def test_two_hosts_are_refused(client):
    with socket.create_connection(("127.0.0.1", client.port)) as wire:
        ours = f"Host: 127.0.0.1:{client.port}\r\n"
        wire.sendall(f"GET / HTTP/1.1\r\n{ours}Host: evil.example\r\n\r\n".encode())
        answer = wire.makefile("rb").readline()

    assert b"403" in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:{}"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "none"}, 200),
    ],
)
def test_requests_of_other_sites_are_refused(client, headers, status):
    headers = {name: value.format(client.port) for name, value in headers.items()}

    assert client.ask("/", **headers)[0] == status


@pytest.mark.parametrize("path", [*ALL_PAGES, "/style.css", "/script.js", "/icon.svg", "/random"])
def test_every_answer_has_a_strict_policy_and_no_cookie(client, path):
    _, headers, _ = client.ask(path)
    rules = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "no-store" in headers["Cache-Control"]
    assert "Set-Cookie" not in headers
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize("path", ALL_PAGES)
def test_pages_hold_no_script_or_style_of_their_own(client, path):
    page = Read(client.ask(path)[2].decode())

    assert [script.get("src") for script in page.named("script")] == ["script.js"]
    assert not page.named("style")
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert ":" not in (attributes.get(name) or "").split("?")[0]


def test_files_outside_the_package_are_not_served(client):
    for path in (
        "/../server.py",
        "/files/style.css",
        "//etc/passwd",
        "/%2e%2e/server.py",
        "/style.css/",
    ):
        assert client.ask(path)[0] in (400, 404)


def test_what_is_asked_wrongly_is_answered_with_why(client):
    for path, words in {
        "/document?n=99999": "118",
        "/document?n=x": "whole number",
        "/document?n=-1": "it must be 0",
        "/document?at=" + "9" * 30: "whole number",
        "/documents?split=none": "train, val",
        "/documents?n=118": "118",
        "/batch?order=%3Cb%3E": "<b>",
        "/batch?batch_size=0": "it must be 1",
        "/batch?batch_size=60000&block_size=2000000": "tokens",
        "/batch?rank=3&world_size=2": "rank",
        "/batch?block_size=1000000&batch_size=1": "tokens",
        "/search?q=" + "x" * 1500: "1,500",
        "/nothing": "nothing",
        "/?" + "&".join(f"a{i}=1" for i in range(50)): "fields",
    }.items():
        page = client.page(path, status=404 if path == "/nothing" else 400)
        assert words in page.text, path
        assert not page.named("b")[1:]  # only our own name is bold


def test_the_socket_is_on_loopback_only(client):
    assert client.server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_ends_cleanly(folder, how):
    command = [sys.executable, "-m", "tokenmill", "view", str(folder), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        line = process.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        with urllib.request.urlopen(address, timeout=60) as answer:
            page = answer.read()
        process.send_signal(how)
        _, errors = process.communicate(timeout=60)

    assert b"corpus" in page
    assert process.returncode == 0
    assert errors == "stopped\n"


def test_a_port_in_use_is_an_error_with_a_hint(folder, client):
    command = [sys.executable, "-m", "tokenmill", "view", str(folder), "--port", str(client.port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    done = subprocess.run(
        [*command, "--no-browser"], env=environment, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert str(client.port) in done.stderr
    assert "--port" in done.stderr
