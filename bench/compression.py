"""What do compressed shards save, and what do they cost? Compared with plain ones, in one run.

    python bench/compression.py --corpus english.txt --megabytes 100

Size: ids of English (`--corpus`), of the source of Python's standard library, and of a vocabulary
of 128,000 ids in uint32 (a tokenizer that is trained on the corpus with the package `tokenizers`),
at levels 1, 3 and 9. Preparation: the whole command with `--compress zstd:3` and without, in turns.
Loading: shuffled when all shards are in the cache, and `sequential` and `blocks` from frames, each
in turns with the plain dataset. Ratios are what counts. Results go to
bench/results/compression.json.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import corpus
from measure import machine, run

import tokenmill

HERE = Path(__file__).parent
LEVELS = (1, 3, 9)
WIDE_VOCABULARY = 128_000
BATCHES = 400


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        texts = {"english": folder / "english.txt", "code": folder / "code.txt"}
        corpus.write_text(corpus.documents(options.corpus), texts["english"], options.megabytes)
        corpus.write_text(corpus.documents(None), texts["code"], options.megabytes)
        results = {
            "machine": machine(),
            "text_mb": options.megabytes,
            "size_against_plain": sizes(folder, texts),
            "prepare_against_plain": preparing(folder, texts["english"], options.rounds),
            "loading_against_plain": loading(folder, options.rounds),
        }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "compression.json").write_text(json.dumps(results, indent=2) + "\n")


def sizes(folder: Path, texts: dict[str, Path]) -> dict[str, dict[str, float]]:
    """Bytes of compressed shards and indices, of one of plain ones."""
    settings: dict[str, dict[str, Any]] = {
        "english, gpt2, uint16": {"inputs": texts["english"]},
        "code, gpt2, uint16": {"inputs": texts["code"]},
    }
    if (wide := train_wide(folder, texts["english"])) is not None:
        known = {"inputs": texts["english"], "tokenizer": str(wide), "end_of_text": "<|end|>"}
        settings["english, 128,000 ids, uint32"] = known
    found: dict[str, dict[str, float]] = {}
    for name, known in settings.items():
        plain, packed = folder / "sizes", folder / "packed"
        tokenmill.prepare(out_dir=plain, separator="<|endoftext|>", dedup="none", **known)
        found[name] = {}
        for level in LEVELS:
            tokenmill.convert(plain, packed, compress=f"zstd:{level}")
            found[name][f"zstd:{level}"] = round(shard_bytes(packed) / shard_bytes(plain), 3)
            shutil.rmtree(packed)
        print(f"{name:<30} {found[name]}")
        shutil.rmtree(plain)
    return found


def shard_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/shard_*"))


def train_wide(folder: Path, text: Path) -> Path | None:
    """A tokenizer with a large vocabulary, or None where the package is not installed."""
    try:
        import tokenizers
    except ImportError:
        print("tokenizers is not installed: no large vocabulary", file=sys.stderr)
        return None
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WIDE_VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train([str(text)], trainer)
    made.save(str(folder / "wide.json"))
    return folder / "wide.json"


def preparing(folder: Path, text: Path, rounds: int) -> dict[str, float]:
    """Seconds of whole commands, in turns; the speed with compression, of that without."""
    seconds: dict[str, list[float]] = {"plain": [], "zstd:3": []}
    command = [sys.executable, "-m", "tokenmill", "prepare", str(text), "--no_dedup", "--quiet"]
    command += ["--no_normalize", "--separator", corpus.SEPARATOR.decode()]
    for _ in range(rounds):
        for name, times in seconds.items():
            shutil.rmtree(folder / name, ignore_errors=True)
            more = [] if name == "plain" else ["--compress", name]
            times.append(run([*command, "-o", str(folder / name), *more]).seconds)
    ratio = statistics.median(
        plain / packed for plain, packed in zip(seconds["plain"], seconds["zstd:3"], strict=True)
    )
    print(f"prepare with zstd:3            {ratio:.2f} of the speed without")
    return {"zstd:3": round(ratio, 3), "plain_seconds": round(min(seconds["plain"]), 2)}


def loading(folder: Path, rounds: int) -> dict[str, float]:
    """The speed of batches from compressed shards, of that from plain ones."""
    datasets = {
        "plain": tokenmill.open(folder / "plain"),
        "packed": tokenmill.open(folder / "zstd:3", cache_dir=folder / "cache"),
    }
    found = {}
    for order in ("shuffle", "sequential", "blocks"):
        loaders = {
            name: tokenmill.BatchLoader(data, batch_size=64, block_size=1024, order=order)
            for name, data in datasets.items()
        }
        for loader in loaders.values():  # after the first pass, where there is a cache to fill
            for _ in range(3 * BATCHES if order == "shuffle" else 20):
                next(loader)
        ratios = []
        for _ in range(rounds):
            seconds = {name: time_of(loader) for name, loader in loaders.items()}
            ratios.append(seconds["plain"] / seconds["packed"])
        name = "shuffle, after the first pass" if order == "shuffle" else f"{order}, from frames"
        found[name] = round(statistics.median(ratios), 3)
        print(f"{name:<30} {found[name]:.2f} of the speed of plain shards")
    return found


def time_of(loader: tokenmill.BatchLoader) -> float:
    began = time.perf_counter()
    for _ in range(BATCHES):
        next(loader)
    return time.perf_counter() - began


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, help="English text  [default: Python's own source]")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work  [default: the usual place]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
