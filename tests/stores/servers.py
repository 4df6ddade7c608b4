"""Real servers for each kind of store, each in a process of its own.

moto is S3 in Python; s3rver (npm) is another S3, which ignores the conditions of writes; Azurite
(npm) is Azure's own emulator; gcs_server.py is ours, for want of another. `make servers` installs
those of npm.
"""

import base64
import datetime
import hashlib
import hmac
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tokenmill.stores import objects

NPM = Path(sys.prefix) / "servers" / "node_modules" / ".bin"
AZURE_NAME = "devstoreaccount1"  # name and key are Azurite's own, the same everywhere
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
S3_KEYS = {
    "AWS_ACCESS_KEY_ID": "not-a-real-key",
    "AWS_SECRET_ACCESS_KEY": "not-a-real-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass
class Server:
    """A server that runs; `variables` are what a user would set to reach it at a port."""

    kind: str
    port: int
    process: subprocess.Popen = field(repr=False)

    @property
    def scheme(self):
        return {"azurite": "az", "gcs": "gs"}.get(self.kind, "s3")

    def variables(self, port=None, scheme="http"):
        root = f"{scheme}://127.0.0.1:{port or self.port}"
        if self.kind == "gcs":
            return {"STORAGE_EMULATOR_HOST": root}
        if self.kind == "azurite":
            where = f"AccountName={AZURE_NAME};AccountKey={AZURE_KEY};"
            return {"AZURE_STORAGE_CONNECTION_STRING": f"{where}BlobEndpoint={root}/{AZURE_NAME}"}
        keys = S3_KEYS
        if self.kind == "s3rver":
            keys = {**S3_KEYS, "AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER"}
        return {**keys, "AWS_ENDPOINT_URL": root}

    def make_bucket(self, name):
        """A new bucket; its address."""
        root, headers, path = f"http://127.0.0.1:{self.port}", {"Content-Type": "text/xml"}, name
        if self.kind == "azurite":
            path, headers = f"{AZURE_NAME}/{name}?restype=container", sign_azure(name)
        if self.kind == "s3rver":
            headers["Authorization"] = "AWS S3RVER:"  # not compared
        if self.kind == "s3rver":
            import boto3

            keys = self.variables()
            boto3.client(
                "s3",
                endpoint_url=root,
                region_name="us-east-1",
                aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            ).create_bucket(Bucket=name)
        else:
            asked = urllib.request.Request(f"{root}/{path}", b"", headers, method="PUT")
            urllib.request.urlopen(asked).close()
        return f"{self.scheme}://{name}"


def certificate(folder):
    """A TLS context for 127.0.0.1, and the file of the authority that signed for it."""
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=test -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -days 9 -extfile names -out cert.pem",
    ):
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed: no certificate can be made")
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, folder / "ca.pem"


def sign_azure(container):
    date = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    stated = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
    where = f"/{AZURE_NAME}/{AZURE_NAME}/{container}\nrestype:container"
    text = f"PUT\n\n\n\n\ntext/xml\n\n\n\n\n\n\n{stated}{where}"
    made = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    return {
        "Content-Type": "text/xml",
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {AZURE_NAME}:{base64.b64encode(made).decode()}",
    }


def start(kind, folder):
    """Start a server, or skip the test with the reason why there is none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        _command(kind, port, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **S3_KEYS},
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return Server(kind, port, process)
        except OSError:
            assert process.poll() is None, f"the server {kind} ended"
            assert time.monotonic() < deadline, f"the server {kind} does not come up"
            time.sleep(0.05)


def _command(kind, port, folder):
    here = ["127.0.0.1", str(port)]
    if kind == "moto":
        pytest.importorskip("moto", reason="moto is not installed")
        return [sys.executable, "-m", "moto.server", "-H", here[0], "-p", here[1]]
    if kind == "gcs":
        return [sys.executable, str(Path(__file__).with_name("gcs_server.py")), here[1]]
    program = NPM / {"azurite": "azurite-blob", "s3rver": "s3rver"}[kind]
    if not program.exists():
        pytest.skip(f"{kind} is not installed; `make servers` installs it where npm is")
    if kind == "s3rver":
        return [str(program), "-d", str(folder), "-a", here[0], "-p", here[1], "--silent"]
    quiet = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    return [str(program), "--blobHost", here[0], "--blobPort", here[1], *quiet]


def objects_of(address):
    """The files of the dataset; the hashes of blocks, which only stores have, are left out."""
    return {
        path.removeprefix(f"{address}/"): objects.read_all(path, at_most=1 << 30)
        for path in objects.list_below(address)
        if "/block_hashes-" not in path
    }
