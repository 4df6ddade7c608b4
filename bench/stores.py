"""What does a store cost? The first batch, and the bytes and seconds of an epoch, against peers.

    python bench/stores.py
    python bench/stores.py --no-peers

A local S3 server (store_server.py) waits 50 ms before each answer. The first batch is that of 10^12
tokens in 10,000 shards (`prepare` writes no more), which the server makes when they are asked for.
Then an epoch of 400 MB in shards of 10 MB is read in each order, with a cache that holds the
dataset and with a smaller one; the full shuffle with a cache of half the dataset is one of 60 MB,
since most of its rows are requests of their own. MosaicML Streaming and litdata read the same
tokens from the same server, as their own shards of the same size, with the same cache, each in an
environment of its own; what takes longer than 30 s is stopped. Results: results/stores.json
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import environments
import numpy as np
import store_server
from measure import machine

import tokenmill
from tokenmill.shards import block_hashes
from tokenmill.shards.manifest import Manifest, SplitEntry

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "stores.json"
BLOCK_SIZE, BATCH_SIZE = 1024, 64
SHARD = 5_000_000  # tokens
LIMIT = 30  # seconds
PEERS = ("mosaic", "litdata")
# Dataset, order, and the cache as a share of the dataset.
EPOCHS = (
    ("plain", "sequential", 0.2),
    ("plain", "blocks", 1.2),
    ("plain", "blocks", 0.75),
    ("plain", "shuffle", 1.2),
    ("small", "shuffle", 0.5),
    ("packed", "blocks", 0.75),
    ("packed", "shuffle", 1.2),
)
# litdata has one order, which is compared with both of ours.
EPOCHS_OF_PEERS = (("plain", "shuffle", 1.2), ("plain", "blocks", 0.75), ("small", "shuffle", 0.5))


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        sizes = make_datasets(folder, options.megabytes)
        peers = {} if options.no_peers else make_for_peers(folder, options)
        with served(folder) as endpoint:
            found: dict[str, Any] = {
                "machine": machine(),
                "seconds_a_request": store_server.SECONDS_A_REQUEST,
                "first_batch": first_batch(endpoint, folder / "cache"),
            }
            print(json.dumps(found["first_batch"]), flush=True)
            found["epochs"] = epochs(endpoint, folder, sizes, peers)
    if not options.no_peers:
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--folder", help="where temporary files go")
    return parser.parse_args()


def make_datasets(folder: Path, megabytes: int) -> dict[str, int]:
    """Datasets of random bytes with the hashes of their blocks, and the manifest of a large one."""
    rng = np.random.default_rng(5)
    ids = rng.integers(97, 123, megabytes * 500_000, dtype=np.uint16)
    ids[199::200] = 256
    shapes = {
        "plain": (ids, SHARD, None),
        "small": (ids[:30_000_000], 1_500_000, None),
        "packed": (ids, SHARD, "zstd"),
    }
    for name, (tokens, per_shard, compress) in shapes.items():
        np.save(folder / f"{name}.npy", tokens)
        tokens.tofile(folder / f"{name}.bin")
        tokenmill.convert(
            folder / f"{name}.npy",
            folder / name,
            to="tokenmill",
            tokenizer="bytes",
            end_of_text=256,
            tokens_per_shard=per_shard,
            compress=compress,
        )
        write_block_hashes(folder / name)
        (folder / f"{name}.npy").unlink()
    make_large(folder / "large", Manifest.load(folder / "plain"))
    return {name: tokens.nbytes for name, (tokens, _, _) in shapes.items()}


def write_block_hashes(folder: Path) -> None:
    """As `prepare` writes them into a store."""
    manifest = Manifest.load(folder)
    known = {
        shard.file: block_hashes.hash_blocks(folder / shard.file)
        for shard in manifest.shards
        if shard.packed is None
    }
    name = block_hashes.file_name(manifest.to_bytes())
    (folder / name).write_bytes(block_hashes.to_bytes(manifest, known) or b"")


def make_large(folder: Path, manifest: Manifest) -> None:
    """A manifest of 10^12 tokens, whose shards the server makes."""
    first, count = manifest.splits["train"].shards[0], store_server.TOKENS_PER_SHARD
    shards = tuple(
        replace(
            first,
            file=f"train/shard_{number:05d}.bin",
            num_tokens=count,
            num_bytes=2 * count,
            xxh3_128=store_server.digest_of(number),
            ends=replace(
                first.ends,
                file=f"train/shard_{number:05d}.ends",
                xxh3_128=store_server.digest_of(number),
            ),
        )
        for number in range(store_server.SHARDS)
    )
    folder.mkdir()
    splits = {"train": SplitEntry.of(shards)}
    replace(manifest, tokens_per_shard=count, splits=splits).write(folder)


def make_for_peers(folder: Path, options: argparse.Namespace) -> dict[str, Path]:
    """Their own files of the same tokens, written before the time is measured."""
    found = {}
    for peer in PEERS:
        if (python := environments.python_of(peer, options.venvs)) is None:
            continue
        for name, per_shard in (("plain", SHARD), ("small", 1_500_000)):
            sizes = [str(BLOCK_SIZE), str(2 * per_shard)]
            where = [str(folder / f"{name}.bin"), str(folder / f"{peer}-{name}")]
            run_peer(python, peer, ["write", *where, *sizes])
        found[peer] = python
    return found


def run_peer(python: Path, peer: str, arguments: list[str]) -> dict[str, Any]:
    """Run a script of rivals/; what its last line says, or nothing where it has to be stopped."""
    command = [str(python), str(HERE / "rivals" / f"stores_{peer}.py"), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        stdout, stderr = process.communicate(timeout=300 if arguments[0] == "write" else 3 * LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"ended": f"gave no batch for {3 * LIMIT} s"}
    if process.returncode and arguments[0] == "write":
        raise RuntimeError(f"{peer} cannot write:\n{stderr[-2000:]}")
    if process.returncode:
        return {"ended": f"failed: {stderr.strip().splitlines()[-1:]}"}
    return json.loads(stdout.splitlines()[-1]) if arguments[0] == "read" else {}


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The server, and the variables by which everybody finds it; its address."""
    authority = str(store_server.certificates(folder))
    command = [sys.executable, str(HERE / "store_server.py"), str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        endpoint = f"https://127.0.0.1:{server.stdout.readline().strip()}"
        os.environ |= {
            "AWS_ENDPOINT_URL": endpoint,
            "S3_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CA_BUNDLE": authority,
            "SSL_CERT_FILE": authority,
        }
        yield endpoint
    finally:
        server.kill()
        server.wait()


def counts(endpoint: str) -> np.ndarray:
    """Requests and bytes that the server has answered so far."""
    trusted = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    with urllib.request.urlopen(f"{endpoint}/counts", context=trusted) as answer:
        return np.array(json.loads(answer.read()))


def first_batch(endpoint: str, cache: Path) -> dict[str, float]:
    before = counts(endpoint)
    began, used = time.perf_counter(), time.process_time()
    data = tokenmill.open("s3://bench/large", cache_dir=cache)
    opened = time.perf_counter()
    loader = tokenmill.BatchLoader(data, batch_size=16, block_size=BLOCK_SIZE, seed=1)
    next(iter(loader))
    done = time.perf_counter()
    used = time.process_time() - used
    requests, sent = (counts(endpoint) - before).tolist()
    loader.close()
    return {
        "tokens": data.num_tokens,
        "seconds": round(done - began, 2),
        "seconds_to_open": round(opened - began, 2),
        "seconds_of_this_process": round(used, 2),
        "requests": requests,
        "megabytes": round(sent / 1e6, 1),
    }


def epochs(
    endpoint: str, folder: Path, sizes: dict[str, int], peers: dict[str, Path]
) -> dict[str, dict[str, Any]]:
    """An epoch of each kind; ours first."""
    runs = [("tokenmill", *case) for case in EPOCHS]
    runs += [(peer, *case) for peer in peers for case in EPOCHS_OF_PEERS]
    found: dict[str, dict[str, Any]] = {}
    for who, name, order, share in sorted(runs, key=lambda run: run[1:]):
        cache, cache_bytes = folder / "cache", int(share * sizes[name])
        before = counts(endpoint)
        if who == "tokenmill":
            result = our_epoch(name, order, cache, cache_bytes)
        else:
            numbers = [cache_bytes // 4, BATCH_SIZE, BLOCK_SIZE, LIMIT]
            where = [f"s3://bench/{who}-{name}", str(cache), str(cache_bytes), order]
            result = run_peer(peers[who], who, ["read", *where, *map(str, numbers)])
        cost = (counts(endpoint) - before).tolist()
        shown = result if "ended" in result else summary(result, *cost)
        found[f"{who}: {order}, {name}, a cache of {share:g} of it"] = shown
        print(f"{who}: {order}, {name}, cache {share:g}: {json.dumps(shown)}", flush=True)
        shutil.rmtree(cache, ignore_errors=True)
    return found


def summary(result: dict[str, Any], requests: int, sent: int) -> dict[str, Any]:
    """What an epoch took, for each token and batch."""
    used = result["rows"] * BLOCK_SIZE * 2
    if not used:
        return {"ended": f"gave no batch for {result['seconds']:.0f} s"}
    return {
        "seconds": round(result["seconds"], 2),
        "million_tokens_a_second": round(used / 2e6 / result["seconds"], 1),
        "bytes_read_for_each_used": round(sent / used, 3),
        "requests_a_batch": round(requests * BATCH_SIZE / result["rows"], 2),
        "whole_epoch": result["is_whole"],
    }


def our_epoch(name: str, order: str, cache: Path, cache_bytes: int) -> dict[str, Any]:
    began, rows = time.perf_counter(), 0
    # In a cache that does not hold all, a full shuffle reads rows alone, which has to be allowed.
    how = {"verify": False} if name == "small" else {}
    data = tokenmill.open(f"s3://bench/{name}", cache_dir=cache, cache_bytes=cache_bytes, **how)
    shape = {"batch_size": BATCH_SIZE, "block_size": BLOCK_SIZE}
    loader = tokenmill.BatchLoader(data, seed=1, order=order, epochs=1, **shape)
    for batch in loader:
        rows += len(batch.tokens)
    seconds = time.perf_counter() - began
    loader.close()
    return {"rows": rows, "seconds": seconds, "is_whole": True}


if __name__ == "__main__":
    main()
