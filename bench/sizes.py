"""Is `tokenmill prepare` fast at every size and on every kind of text? Side by side, in one run.

    python bench/sizes.py --corpus english.txt           # about ten minutes, alone on a machine
    python bench/sizes.py --corpus english.txt --quick   # a look, on a busy one

gigatoken alone is a fresh process that reads the same file and encodes it on all cores, in the
fastest way it has (`encode_files`), and writes nothing. Both are timed from start to exit, in
turns; the best of the rounds counts. CPU seconds, of all processes together, are given as well:
they say something on a busy machine too. Results go to bench/results/sizes.json.
"""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus
from measure import Run, machine, run
from prepare import RANKS, RIVALS, WORKERS, against_peers, prepare

HERE = Path(__file__).parent
CLEANED = ["--clean", "--dedup", "lines"]
SEPARATED = ["--separator", corpus.SEPARATOR.decode()]
IMPORTS = [sys.executable, "-c", "import numpy, gigatoken"]
Command = Callable[[], Run]


@dataclass(frozen=True)
class Sizes:
    """What is measured; the defaults are those of the results."""

    mix: tuple[int, ...] = (50, 400, 800)
    code: int = 400
    english: int = 1000
    jsonl: int = 300
    peers: int = 400
    files: int = 100_000
    rounds: int = 3


QUICK = Sizes((20, 60), 30, 60, 40, 0, 5000, 1)


def main() -> None:
    options = parse()
    sizes = QUICK if options.quick else Sizes()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        bench = Bench(Path(name), sizes, options)
        results: dict[str, Any] = {"machine": machine(), "workers": WORKERS, "rounds": sizes.rounds}
        results["one_kilobyte"] = bench.one_kilobyte()
        results["small_files"] = bench.small_files()
        for megabytes in sizes.mix:
            results[f"mix_{megabytes}"] = bench.against_gigatoken("prose and code", megabytes)
        results[f"code_{sizes.code}"] = bench.against_gigatoken("code", sizes.code)
        results[f"english_{sizes.english}"] = bench.against_gigatoken("english", sizes.english)
        results["compressed"] = bench.compressed()
        if sizes.peers and not options.no_peers:
            results["peers"] = bench.peers()
    if not options.quick:
        (HERE / "results" / "sizes.json").write_text(json.dumps(results, indent=1) + "\n")


class Bench:
    """The measurements, each of which leaves nothing in the folder."""

    def __init__(self, folder: Path, sizes: Sizes, options: argparse.Namespace) -> None:
        self.folder, self.sizes, self.options = folder, sizes, options

    def against_gigatoken(self, kind: str, megabytes: int) -> dict[str, Any]:
        """A text of many documents: plain, then cleaned and without repeated lines."""
        text = self.folder / "text.txt"
        size = corpus.write_text(self.documents(kind), text, megabytes)
        found = self.in_turns(
            f"{size / 1e6:,.0f} MB of {kind}",
            {
                "gigatoken": lambda: gigatoken(text, "file"),
                "plain": lambda: self.prepare(text, *SEPARATED),
                "cleaned": lambda: self.prepare(text, *SEPARATED, *CLEANED),
            },
        )
        text.unlink()
        return found

    def documents(self, kind: str) -> list[bytes]:
        if kind == "english":
            return corpus.documents(self.options.corpus)
        return corpus.source_code() if kind == "code" else corpus.mix(self.options.corpus)

    def one_kilobyte(self) -> dict[str, Any]:
        """The whole command with default settings, against the imports that it must do."""
        text = self.folder / "small.txt"
        text.write_bytes(b"".join(corpus.documents(self.options.corpus))[:1000])
        commands: dict[str, Command] = {
            "imports": lambda: run(IMPORTS),
            "prepare": lambda: self.prepare(text, workers=None),
        }
        return self.in_turns("1 KB", commands, rounds=3 * self.sizes.rounds)

    def small_files(self) -> dict[str, Any]:
        """A hundred thousand files, against a loop that reads them and one call of gigatoken."""
        files = self.folder / "files"
        text = b" ".join(corpus.documents(self.options.corpus)).replace(b"\n", b" ")
        for number in range(self.sizes.files):
            path = files / f"{number // 1000}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            start = number * 560 % (len(text) - 560)
            path.write_bytes(text[start : start + 560].decode(errors="ignore").encode())
        found = self.in_turns(
            f"{self.sizes.files:,} files of 560 bytes",
            {
                "gigatoken": lambda: gigatoken(files, "folder"),
                "plain": lambda: self.prepare(files),
            },
        )
        shutil.rmtree(files)
        return found

    def compressed(self) -> dict[str, Any]:
        """JSON lines, against the same as one .jsonl.gz; cleaned and without repeated lines."""
        documents = corpus.mix(self.options.corpus)
        corpus.write_jsonl(documents, self.folder, self.sizes.jsonl, 1)
        (text,) = self.folder.glob("*.jsonl")
        packed = text.with_suffix(".jsonl.gz")
        with open(text, "rb") as source, gzip.open(packed, "wb", 6) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        found = self.in_turns(
            f"{self.sizes.jsonl:,} MB of JSON lines",
            {
                "jsonl": lambda: self.prepare(text, *CLEANED),
                "jsonl.gz": lambda: self.prepare(packed, *CLEANED),
            },
        )
        text.unlink()
        packed.unlink()
        return found

    def peers(self) -> dict[str, Any]:
        """Other projects on the same JSON lines, one file for each worker."""
        folder = self.folder / "jsonl"
        folder.mkdir()
        documents = corpus.documents(self.options.corpus)
        size = corpus.write_jsonl(documents, folder, self.sizes.peers, WORKERS)
        found = against_peers(self.folder, folder, size, self.options, ("datatrove", "dolma"))
        shutil.rmtree(folder)
        return found

    def prepare(self, path: Path, *flags: str, workers: int | None = WORKERS) -> Run:
        return prepare(path, self.folder, *flags, workers=workers)

    def in_turns(
        self, what: str, commands: dict[str, Command], rounds: int | None = None
    ) -> dict[str, Any]:
        """The best of each, and the ratio of the first one's time to it."""
        runs: dict[str, list[Run]] = {name: [] for name in commands}
        for _ in range(rounds or self.sizes.rounds):
            for name, command in commands.items():
                runs[name].append(command())
        first = next(iter(commands))
        found: dict[str, Any] = {}
        for name, done in runs.items():
            seconds, cpu = (
                min(getattr(one, field) for one in done) for field in ("seconds", "cpu_seconds")
            )
            found[name] = {"seconds": round(seconds, 3), "cpu_seconds": round(cpu, 3)}
            if name != first:
                found[name]["ratio"] = round(found[first]["seconds"] / seconds, 3)
                found[name]["ratio_of_cpu"] = round(found[first]["cpu_seconds"] / cpu, 3)
                found[name]["peak_mb"] = round(max(one.peak_mb for one in done))
            print(f"{what}, {name}: {found[name]}", flush=True)
        return found


def gigatoken(path: Path, kind: str) -> Run:
    return run([sys.executable, str(RIVALS / "prepare_gigatoken.py"), str(RANKS), str(path), kind])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="English, documents ended by <|endoftext|>")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, no results")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--venvs", type=Path, help="where the peers' environments are or go")
    parser.add_argument("--folder", type=Path, help="where to work (default: the system's)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
