"""How long the first batch takes from a store, and how many bytes an epoch costs.

    python bench/stores.py

A local web server waits 50 ms before each answer. The first dataset has 10^12 tokens in 100,000
shards; its server makes their bytes when they are asked for. The second has five shards of 20 MB,
and each order reads an epoch of it. Results: results/stores.json
"""

import argparse
import functools
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import xxhash

import tokenmill
from tokenmill.shards import block_hashes
from tokenmill.shards.entries import SplitEntry
from tokenmill.shards.manifest import FILE_NAME, Manifest

SECONDS_A_REQUEST = 0.05
TOKENS_PER_SHARD = 10_000_000
SHARDS = 100_000
BLOCK = block_hashes.BLOCK_BYTES
RESULTS = Path(__file__).parent / "results" / "stores.json"


def digest_of(number: int) -> str:
    """A name for a shard of the large dataset; nobody fetches one whole."""
    return f"{number:032x}"


@functools.lru_cache(maxsize=64)
def made_block(number: int, block: int) -> bytes:
    """The bytes of a block of the large dataset."""
    size = min(BLOCK, 2 * TOKENS_PER_SHARD - block * BLOCK)
    ids = np.random.default_rng([number, block]).integers(0, 256, size // 2, dtype=np.uint16)
    return ids.tobytes()


class Store:
    """What is served: files of a folder, and the shards and block hashes that are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent, self.requests, self.lock = 0, 0, threading.Lock()

    def size(self, path: str) -> int | None:
        if (folder := self.folder / path).is_file():
            return folder.stat().st_size
        if re.fullmatch(r"large/train/shard_\d+\.bin", path):
            return 2 * TOKENS_PER_SHARD
        if path.startswith("large/block_hashes-"):
            return 16 + SHARDS * self.entry
        return None

    @functools.cache  # noqa: B019 - one store a process
    def etag(self, path: str) -> str:
        """As S3 names an object: by the MD5 of its bytes."""
        file = self.folder / path
        data = file.read_bytes() if file.is_file() else path.encode()
        return hashlib.md5(data).hexdigest()

    @property
    def entry(self) -> int:
        return 16 + 8 * -(-2 * TOKENS_PER_SHARD // BLOCK)

    def read(self, path: str, start: int, stop: int) -> bytes:
        if (self.folder / path).is_file():
            with (self.folder / path).open("rb") as file:
                file.seek(start)
                return file.read(stop - start)
        if shard := re.fullmatch(r"large/train/shard_(\d+)\.bin", path):
            assert start % BLOCK == 0, "a block is read from its start"
            return made_block(int(shard[1]), start // BLOCK)[: stop - start]
        number = (start - 16) // self.entry
        blocks = range(-(-2 * TOKENS_PER_SHARD // BLOCK))
        hashes = (xxhash.xxh3_64_intdigest(made_block(number, block)) for block in blocks)
        made = bytes.fromhex(digest_of(number))
        made += b"".join(value.to_bytes(8, "little") for value in hashes)
        return made[: stop - start]


def serve(folder: Path) -> None:
    store = Store(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            if path == "counts":
                return self.answer(200, json.dumps([store.requests, store.sent]).encode())
            time.sleep(SECONDS_A_REQUEST)
            if (size := store.size(path)) is None:
                return self.answer(404, b"")
            asked = self.headers.get("Range", f"bytes=0-{size - 1}").removeprefix("bytes=")
            start, last = map(int, asked.split("-"))
            stop = min(last + 1, size)
            data = store.read(path, start, stop) if self.command == "GET" else b""
            with store.lock:
                store.requests, store.sent = store.requests + 1, store.sent + len(data)
            headers = {"ETag": f'"{store.etag(path)}"'}
            if "Range" in self.headers:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
                return self.answer(206, data, headers)
            return self.answer(200, data, headers, length=size)

        def answer(self, status, data, headers=None, length=None):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(length or len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def make_datasets(folder: Path, megabytes: int) -> None:
    """A small dataset with the hashes of its blocks, and the manifest of the large one."""
    rng = np.random.default_rng(5)
    text = rng.integers(97, 123, megabytes * 500_000, dtype=np.uint8)
    text[199::200] = 10
    (folder / "corpus.txt").write_bytes(text.tobytes())
    settings = {"tokenizer": "bytes", "dedup": "none", "val_fraction": 0.0, "workers": 2}
    small = folder / "small"
    tokenmill.prepare(folder / "corpus.txt", small, tokens_per_shard=TOKENS_PER_SHARD, **settings)
    manifest = Manifest.load(small)
    known = {
        shard.file: block_hashes.hash_blocks(small / shard.file)
        for shard in block_hashes.shards_in_order(manifest)
    }
    (small / block_hashes.file_name(manifest.to_bytes())).write_bytes(
        block_hashes.to_bytes(manifest, known) or b""
    )
    first = manifest.splits["train"].shards[0]
    shards = tuple(
        replace(
            first,
            file=f"train/shard_{number:05d}.bin",
            num_tokens=TOKENS_PER_SHARD,
            num_bytes=2 * TOKENS_PER_SHARD,
            xxh3_128=digest_of(number),
            ends=replace(
                first.ends, file=f"train/shard_{number:05d}.ends", xxh3_128=digest_of(number)
            ),
        )
        for number in range(SHARDS)
    )
    large = folder / "large"
    large.mkdir()
    replace(
        manifest, tokens_per_shard=TOKENS_PER_SHARD, splits={"train": SplitEntry.of(shards)}
    ).write(large)
    assert (large / FILE_NAME).stat().st_size < 64 << 20


def counts(address: str) -> list[int]:
    with urllib.request.urlopen(f"{address}/counts") as answer:
        return json.loads(answer.read())


def first_batch(address: str, cache: Path) -> dict[str, float]:
    before = counts(address)
    began, used = time.perf_counter(), time.process_time()
    data = tokenmill.open(f"{address}/large", cache_dir=cache)
    opened = time.perf_counter()
    loader = tokenmill.BatchLoader(data, batch_size=16, block_size=1024, seed=1)
    next(iter(loader))
    done = time.perf_counter()
    after = counts(address)
    loader.close()
    return {
        "tokens": data.num_tokens,
        "seconds": round(done - began, 2),
        "seconds_to_open": round(opened - began, 2),
        "seconds_of_this_process": round(time.process_time() - used, 2),
        "requests": after[0] - before[0],
        "megabytes": round((after[1] - before[1]) / 1e6, 1),
    }


def epoch(address: str, cache: Path, order: str, share: float, total: int) -> dict[str, float]:
    before = counts(address)
    began = time.perf_counter()
    data = tokenmill.open(f"{address}/small", cache_dir=cache, cache_bytes=int(share * total))
    loader = tokenmill.BatchLoader(
        data, batch_size=64, block_size=1024, seed=1, order=order, epochs=1
    )
    used = sum(batch.tokens.shape[0] for batch in itertools.islice(loader, None)) * 1024 * 2
    seconds = time.perf_counter() - began
    loader.close()
    after = counts(address)
    return {
        "seconds": round(seconds, 2),
        "requests_a_batch": round((after[0] - before[0]) / max(1, used / 2 / 1024 / 64), 2),
        "bytes_read_for_each_used": round((after[1] - before[1]) / used, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--megabytes", type=int, default=300)
    options = parser.parse_args()
    if options.serve:
        return serve(Path(options.serve))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_datasets(folder, options.megabytes)
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", temporary], stdout=subprocess.PIPE, text=True
        )
        try:
            address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            found = {"seconds_a_request": SECONDS_A_REQUEST}
            found["first_batch"] = first_batch(address, folder / "cache")
            total = options.megabytes * 1_000_000
            for order, share in (
                ("sequential", 0.5),
                ("blocks", 1.2),
                ("shuffle", 1.2),
            ):
                where = folder / f"cache-{order}-{share}"
                name = f"{order}, a cache of {share:g} of the dataset"
                found[name] = epoch(address, where, order, share, total)
                print(name, found[name], flush=True)
        finally:
            server.kill()
            server.wait()
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main()
