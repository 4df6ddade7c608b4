"""Four processes read one dataset in a store through one small cache, over a faulty network, and
are killed again and again: every batch must be the one from the disk.

A process says after each batch which one it was, by hash. It is killed after a number of batches
that is chosen beforehand, so the run does not depend on time; another one resumes with the state
that the loader on the disk has there.
"""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import xxhash
from faults.forks import ROOT
from faults.tally import Tally
from small_corpus import files_of
from stores import servers
from stores.proxy import Proxy

import tokenmill
from tokenmill.stores import objects

RANKS, STEPS = 4, 16
CASES = [(name, order) for name in ("plain", "packed") for order in ("shuffle", "blocks")]
SHAPE = {"batch_size": 2, "block_size": 500, "seed": 5}
SHARD = 1_400_000  # tokens: more than two blocks of 1 MiB
FAULTS = ("503", "cut", "flip", "whole", *[None] * 12)
SIGNED_RANGES = ("azurite",)  # "whole" forwards a request without its range, which these refuse
STORES = ("moto", "gcs", "azurite", "tls")
READ = """
import json, sys, tokenmill, xxhash
from tokenmill.base.retry import Retry
from tokenmill.stores import store_requests
store_requests.RETRY = Retry(attempts=20, first_wait=0.01, timeout=20.0)
given = json.loads(sys.argv[1])
data = tokenmill.open(given["address"], cache_dir=given["cache"], cache_bytes=given["bytes"])
loader = tokenmill.BatchLoader(data, **given["loader"])
loader.load_state_dict(given["state"])
for batch in loader:
    print(batch.step, xxhash.xxh3_64_hexdigest(batch.tokens.tobytes()), flush=True)
"""


def make(folder: Path) -> None:
    """Three shards on a disk, plain and compressed."""
    ids = np.random.default_rng(2).integers(0, 256, 3 * SHARD).astype(np.uint16)
    ids[499::500] = 256
    np.save(folder / "ids.npy", ids)
    known = {"to": "tokenmill", "tokenizer": "bytes", "end_of_text": 256}
    for name, compress in (("plain", None), ("packed", "zstd:1")):
        more = {"tokens_per_shard": SHARD, "compress": compress}
        tokenmill.convert(folder / "ids.npy", folder / name, **known, **more)


def kill_readers(tally: Tally, scratch: Path, stores: list[str], cases: list, kills: int) -> None:
    """For each store, and each dataset and order: so many kills, spread over the processes."""
    make(scratch)
    for store in stores:
        with ExitStack() as running:
            try:
                server = servers.start("moto" if store == "tls" else store, scratch)
                authority = servers.certificate(scratch) if store == "tls" else (None, None)
            except pytest.skip.Exception as skipped:  # a server, or openssl, is not installed
                tally.skip(store, str(skipped))
                continue
            running.callback(server.process.wait)
            running.callback(server.process.kill)
            for name, order in cases:
                _one_case(tally, scratch, server, (store, name, order), kills, authority)


def _one_case(tally, scratch, server, case, kills, authority) -> None:
    store, name, order = case
    chance = random.Random(f"{tally.seed} {case}")
    os.environ.update(server.variables())
    bucket = server.make_bucket(f"{store}-{name}-{order}")
    for file, content in files_of(scratch / name).items():
        objects.put(f"{bucket}/data/{file}", content)
    context, trusted = authority
    is_tls = store == "tls"
    known = [fault for fault in FAULTS if fault != "whole" or store not in SIGNED_RANGES]
    faults = lambda _: chance.choice(known)  # noqa: E731
    with Proxy(server.port, faults, tls=context if is_tls else None) as proxy:
        environ = {**os.environ, **server.variables(proxy.port, "https" if is_tls else "http")}
        environ |= {"SSL_CERT_FILE": str(trusted)} if is_tls else {}
        environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        given = {"address": f"{bucket}/data", "cache": str(scratch / f"cache {' '.join(case)}")}
        given["bytes"] = 5 * SHARD  # two and a half of the three shards
        readers = [Reader(scratch / "plain", given, order, rank, environ) for rank in range(RANKS)]
        for _ in range(kills):
            reader = chance.choice(readers)
            if reader.step < STEPS:
                reader.read(chance.randrange(1, 6), killed=True)
                tally.add(f"{store}, {name}", "kills")
        for reader in readers:
            reader.read(STEPS, killed=False)
            for wrong in reader.wrong:
                tally.fail(f"{store}, {name}", f"{order}: {wrong}")
            tally.add(f"{store}, {name}", "batches", reader.step)


class Reader:
    """One rank: a process that is started, killed and started again."""

    def __init__(self, disk: Path, given: dict, order: str, rank: int, environ: dict) -> None:
        self._settings = {**SHAPE, "order": order, "rank": rank, "world_size": RANKS}
        self._loader = tokenmill.BatchLoader(tokenmill.open(disk), **self._settings)
        self._given, self._environ = given, environ
        self.step, self.wrong = 0, list[str]()

    def read(self, count: int, *, killed: bool) -> None:
        """Start a process and compare so many of its batches, or those that are left."""
        given = {**self._given, "loader": self._settings, "state": self._loader.state_dict()}
        process = subprocess.Popen(
            [sys.executable, "-c", READ, json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environ,
        )
        for _ in range(min(count, STEPS - self.step)):
            batch = next(self._loader)
            expected = f"{batch.step} {xxhash.xxh3_64_hexdigest(batch.tokens.tobytes())}\n"
            if (found := process.stdout.readline()) != expected:
                said = "" if found else process.stderr.read()[-600:]
                self.wrong.append(f"step {batch.step}: {found!r} is not {expected!r} {said}")
                self.step = STEPS
                break
            self.step += 1
        process.send_signal(signal.SIGKILL)
        process.communicate()
