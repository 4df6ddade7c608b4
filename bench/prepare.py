"""How fast is `tokenmill prepare`? Compared with its limit and with other projects, in one run.

    python bench/prepare.py --corpus english.txt --megabytes 1000

The limit is gigatoken alone, on all cores, with documents and ids in memory. The peers read the
same JSON lines: datatrove, dolma, and nanoGPT's way with tiktoken and a pool of processes. All
times but gigatoken's are those of whole commands, from start to exit. Ratios are what counts;
seconds are of this machine. Results go to bench/results/prepare.json.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import corpus
import environments
from measure import Run, machine, run

import tokenmill

HERE = Path(__file__).parent
RIVALS = HERE / "rivals"
RANKS = Path(tokenmill.__file__).parent / "tokens" / "data" / "gpt2.tiktoken"
WORKERS = len(os.sched_getaffinity(0))


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        docs = corpus.documents(options.corpus)
        text, jsonl = folder / "corpus.txt", folder / "jsonl"
        jsonl.mkdir()
        size = corpus.write_text(docs, text, options.megabytes)
        jsonl_size = corpus.write_jsonl(docs, jsonl, options.peer_megabytes, WORKERS)
        results = {
            "machine": machine(),
            "workers": WORKERS,
            "text_mb": size / 1e6,
            "jsonl_mb": jsonl_size / 1e6,
            "against_gigatoken": against_gigatoken(folder, text, size, options.rounds),
        }
        if not options.no_peers:
            results["against_peers"] = against_peers(folder, jsonl, jsonl_size, options)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "prepare.json").write_text(json.dumps(results, indent=2) + "\n")


def against_gigatoken(folder: Path, text: Path, size: int, rounds: int) -> dict[str, object]:
    """Alternate the limit and ours, so that other work on the machine slows down both."""
    settings = {
        "no cleaning, no dedup": [],
        "cleaning and line dedup": ["--clean", "--dedup", "lines"],
    }
    limit: list[float] = []
    ours: dict[str, list[Run]] = {name: [] for name in settings}
    for _ in range(rounds):
        limit.append(gigatoken_alone(text, "text"))
        for name, flags in settings.items():
            ours[name].append(prepare(text, folder, "--separator", "<|endoftext|>", *flags))
    best = min(limit)
    print(f"gigatoken alone, {WORKERS} threads: {size / best / 1e6:,.0f} MB/s")
    found: dict[str, object] = {"gigatoken_mb_per_s": size / best / 1e6}
    for name, runs in ours.items():
        ratios = [alone / r.seconds for alone, r in zip(limit, runs, strict=True)]
        found[name] = {
            "ratio_median": statistics.median(ratios),
            "ratio_best": max(ratios),
            "mb_per_s": size / min(r.seconds for r in runs) / 1e6,
            "peak_mb": max(r.peak_mb for r in runs),
        }
        print(
            f"tokenmill prepare, {name}: {statistics.median(ratios):.2f} of gigatoken alone "
            f"(best {max(ratios):.2f}), {size / min(r.seconds for r in runs) / 1e6:,.0f} MB/s, "
            f"peak {max(r.peak_mb for r in runs):,.0f} MB"
        )
    return found


def against_peers(
    folder: Path,
    jsonl: Path,
    size: int,
    options: argparse.Namespace,
    names: tuple[str, ...] = ("datatrove", "dolma", "nanogpt"),
) -> dict[str, object]:
    """Each peer once (they take minutes), ours before and after each."""
    tokenizer = folder / "tokenizer.json"
    run([sys.executable, str(RIVALS / "write_gpt2.py"), str(RANKS), str(tokenizer)])
    arguments: dict[str, Callable[[Path], list[str]]] = {
        "datatrove": lambda out: [
            str(RIVALS / "prepare_datatrove.py"), str(tokenizer), str(jsonl), str(out),
            str(WORKERS),
        ],
        "dolma": lambda out: [
            "-m", "dolma.cli.__main__", "tokens", "--documents", f"{jsonl}/*.jsonl",
            "--destination", str(out), "--tokenizer.name_or_path", str(tokenizer),
            "--tokenizer.eos_token_id", "50256", "--dtype", "uint16", "--processes", str(WORKERS),
        ],
        "nanogpt": lambda out: [
            str(RIVALS / "prepare_nanogpt.py"), str(RANKS), str(jsonl), str(out), str(WORKERS),
        ],
    }  # fmt: skip
    found: dict[str, object] = {}
    for name in names:
        command = arguments[name]
        python = environments.python_of(name, options.venvs)
        if python is None:
            found[name] = "skipped: its environment could not be made"
            continue
        out = folder / name
        out.mkdir()
        ours = [prepare(jsonl, folder)]
        try:
            theirs = run([str(python), *command(out)])
        except RuntimeError as error:
            print(f"skipping {name}: {error}", file=sys.stderr)
            found[name] = f"skipped: {str(error)[-300:]}"
            continue
        ours.append(prepare(jsonl, folder))
        seconds = statistics.mean(r.seconds for r in ours)
        found[name] = {
            "times_as_fast": theirs.seconds / seconds,
            "their_mb_per_s": size / theirs.seconds / 1e6,
            "our_mb_per_s": size / seconds / 1e6,
            "their_peak_mb": theirs.peak_mb,
            "our_peak_mb": max(r.peak_mb for r in ours),
        }
        print(
            f"JSON lines: {theirs.seconds / seconds:.1f} times as fast as {name} "
            f"({size / seconds / 1e6:,.0f} against {size / theirs.seconds / 1e6:,.1f} MB/s; "
            f"peak {ours[0].peak_mb:,.0f} against {theirs.peak_mb:,.0f} MB)"
        )
        shutil.rmtree(out)
    return found


def gigatoken_alone(path: Path, kind: str) -> float:
    command = [sys.executable, str(RIVALS / "prepare_gigatoken.py"), str(RANKS), str(path), kind]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def prepare(path: Path, folder: Path, *flags: str, workers: int | None = WORKERS) -> Run:
    """The whole command, in this folder; what it made is removed."""
    out = folder / "ours"
    command = [sys.executable, "-m", "tokenmill", "prepare", str(path), "-o", str(out), "--quiet"]
    command += [] if workers is None else ["--workers", str(workers)]
    done = run([*command, *flags])
    shutil.rmtree(out)
    return done


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="text, documents ended by <|endoftext|>")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--peer-megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--venvs", type=Path, help="where the peers' environments are or go")
    parser.add_argument("--folder", type=Path, help="where to work (default: the system's)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
