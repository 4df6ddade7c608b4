"""What do Ray and numbered jobs cost? The same corpus on the same cores, against local workers.

    python bench/engines.py                     # 1,000 MB of JSON lines, two rounds
    python bench/engines.py --corpus english.txt --megabytes 500

All three make the same files, which is checked. Ray runs on a cluster of this machine that is up
before the clock starts, with as many CPUs as there are workers; its start is given beside it. The
parts are as many commands as there are workers, all at once, each waiting for the others between
stages, and then `finish`: planning and the starts of all processes count. Ratios are local seconds
over theirs, so 1.0 is no overhead; the best of the rounds counts, since noise only ever adds.
Results go to bench/results/engines.json.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import corpus
from measure import machine

import tokenmill

HERE = Path(__file__).parent
WORKERS = len(os.sched_getaffinity(0))
SOURCE = str(Path(tokenmill.__file__).parents[1])
TOKENMILL = [sys.executable, "-m", "tokenmill", "prepare"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}


def main() -> None:
    options = parse()
    seconds: dict[str, list[float]] = {"local": [], "ray": [], "parts": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        text = folder / "corpus.jsonl"
        text.mkdir()
        size = corpus.write_jsonl(corpus.documents(options.corpus), text, options.megabytes, 1)
        started = time.perf_counter()
        cluster = start_ray()
        ray_start = time.perf_counter() - started
        try:
            hashes = set()
            for _ in range(options.rounds):
                for engine, run in (("local", local), ("ray", on_ray), ("parts", in_parts)):
                    out = folder / engine
                    started = time.perf_counter()
                    run(text, out)
                    seconds[engine].append(time.perf_counter() - started)
                    hashes.add(hash_of(out))
                    shutil.rmtree(out)
                    print(f"{engine:<6} {seconds[engine][-1]:.1f} s", flush=True)
            assert len(hashes) == 1, "the engines made different files"
        finally:
            cluster.shutdown()
    best = {engine: min(times) for engine, times in seconds.items()}
    results = {
        "machine": machine(),
        "workers": WORKERS,
        "megabytes": size / 1e6,
        "local_mb_per_s": size / 1e6 / best["local"],
        "ratio_to_local": {name: best["local"] / best[name] for name in ("ray", "parts")},
        "seconds": seconds,
        "ray_start_seconds": ray_start,
    }
    print(json.dumps(results["ratio_to_local"]))
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "engines.json").write_text(json.dumps(results, indent=2) + "\n")


def start_ray():
    from ray.cluster_utils import Cluster

    head = {"num_cpus": WORKERS, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    os.environ["RAY_ADDRESS"] = cluster.address
    return cluster


def local(text: Path, out: Path) -> None:
    command(str(text), "-o", str(out), "--workers", str(WORKERS))


def on_ray(text: Path, out: Path) -> None:
    address = os.environ["RAY_ADDRESS"]
    command(str(text), "-o", str(out), "--engine", "ray", "--ray_address", address)


def in_parts(text: Path, out: Path) -> None:
    command("plan", str(text), "-o", str(out))
    parts = [
        subprocess.Popen(
            [*TOKENMILL, "work", str(out), "--part", f"{k}/{WORKERS}", "--wait", "100", "--quiet"],
            env=ENVIRONMENT,
        )
        for k in range(WORKERS)
    ]
    assert not any(part.wait() for part in parts)
    command("finish", str(out), "--workers", str(WORKERS))


def command(*arguments: str) -> None:
    subprocess.run([*TOKENMILL, *arguments], check=True, capture_output=True, env=ENVIRONMENT)


def hash_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="documents separated by <|endoftext|>")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to work; needs 6 times the megabytes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
