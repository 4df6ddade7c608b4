"""What a preparation asks of a store: requests and bytes, by kind, with its work in a bucket.

A proxy counts what goes to a local S3 server (moto). Text is prepared with dedup="lines" and
"documents" and compressed output, by one process; the numbers are per unit of input and per byte of
input, for two numbers of units: so what grows with the units can be told from what does not. Units
are of 32 MiB, as usual, with `--megabytes 128`: what is read beyond their edges counts for more
where they are small.
"""

import argparse
import json
import os
import re
import ssl
import sys
import tempfile
from collections import Counter
from pathlib import Path

from corpus import documents, write_text
from measure import machine

import tokenmill
from tokenmill.preparation import Run

sys.path.append(str(Path(__file__).parents[1] / "tests" / "stores"))
import servers
from proxy import Proxy, get

RESULTS = Path(__file__).parent / "results" / "bucket.json"


def kind_of(request) -> str:
    """Name what a request is for."""
    path = request.path.partition("?")[0]
    stage = re.search(r"/work/(?:receipts/)?(\w+)/", path)
    what = "receipts" if "/work/receipts/" in path else stage[1] if stage else ""
    if not what:
        what = "inputs" if "/raw/" in path else "dataset" if "/data" in path else "plan"
    method = "LIST" if "list-type" in request.path else request.method
    return f"{method} {what}"


def measure(
    folder: Path, units: int, megabytes: int, dedup: str, context: ssl.SSLContext
) -> dict[str, object]:
    """Prepare the text in so many units, from a bucket to a bucket."""
    size = write_text(documents(None), folder / "corpus.txt", megabytes)
    server = servers.start("moto", folder)
    try:
        bucket = server.make_bucket("bench")
        with Proxy(server.port, tls=context) as proxy:
            os.environ.update(server.variables(proxy.port, "https"))
            from tokenmill.stores import objects

            objects.upload(folder / "corpus.txt", f"{bucket}/raw/corpus.txt")
            proxy.requests.clear()
            tokenmill.prepare(
                f"{bucket}/raw/corpus.txt",
                f"{bucket}/data",
                separator="<|endoftext|>",
                dedup=dedup,
                compress="zstd:3",
                tokens_per_shard=1_000_000,
                workers=1,
                run=Run(
                    unit_bytes=size // units + 1,
                    work_dir=f"{bucket}/work",
                    scratch=folder / "scratch",
                ),
            )
            requests = list(proxy.requests)
            left = objects.list_below(f"{bucket}/work")
    finally:
        server.process.kill()
        server.process.wait()
    counts = Counter(map(kind_of, requests))
    sent = sum(len(request.body) for request in requests)
    asked = 0
    for request in requests:
        if request.method == "GET" and (span := get(request.headers, b"range")):
            first, _, last = span.decode().removeprefix("bytes=").partition("-")
            asked += int(last) - int(first) + 1 if first and last else 0
    return {
        "units": units,
        "requests": len(requests),
        "requests per unit": round(len(requests) / units, 1),
        "bytes written per byte of input": round(sent / size, 2),
        "bytes read by ranges per byte of input": round(asked / size, 2),
        "objects left over": len(left),
        "by kind": dict(sorted(counts.items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=128)
    options = parser.parse_args()
    found: dict[str, object] = {"machine": machine()}
    certificates = tempfile.TemporaryDirectory()
    context, authority = servers.certificate(Path(certificates.name))
    os.environ["SSL_CERT_FILE"] = str(authority)  # over plain http, ranges are read twice
    for dedup in ("lines", "documents"):
        for units in (4, 8):
            with tempfile.TemporaryDirectory() as folder:
                name = f"{dedup}, {units} units"
                found[name] = measure(Path(folder), units, options.megabytes, dedup, context)
                print(json.dumps({name: found[name]}, indent=2), flush=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
