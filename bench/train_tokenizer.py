"""How fast is a tokenizer trained, and in how much memory? Against the package `tokenizers`.

    python bench/train_tokenizer.py --corpus english.txt --megabytes 1000

Both train byte-level BPE with GPT-2's pattern on the same file of documents, without cleaning or
deduplication, as whole commands from start to exit, on all cores; ours within `--max_ram`. Ours
runs before and after the other, and both must find the same merges. Copies of the corpus alone
would have hardly any new words: in each copy, words that the corpus has only once are other words
(`corpus.write_text_with_new_words`). Results go to bench/results/train_tokenizer.json.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import corpus
from measure import Run, machine, run

HERE = Path(__file__).parent
WORKERS = len(os.sched_getaffinity(0))


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        text, theirs_out = Path(name) / "corpus.txt", Path(name) / "theirs.json"
        docs = corpus.documents(options.corpus)
        size = corpus.write_text_with_new_words(docs, text, options.megabytes)
        vocab_size = str(options.vocab_size)
        ours = [train(text, Path(name) / "tok", vocab_size, options.max_ram)]
        rival = HERE / "rivals" / "train_tokenizers.py"
        theirs = run([sys.executable, str(rival), str(text), str(theirs_out), vocab_size])
        ours.append(train(text, Path(name) / "tok", vocab_size, options.max_ram))
        about = json.loads((Path(name) / "tok" / "training.json").read_bytes())["outcome"]
        same = merges_of(Path(name) / "tok" / "tokenizer.json") == merges_of(theirs_out)
    seconds = statistics.mean(one.seconds for one in ours)
    found = {
        "machine": machine(),
        "workers": WORKERS,
        "text_mb": size / 1e6,
        "vocab_size": options.vocab_size,
        "max_ram": options.max_ram,
        "different_words": about["words"],
        "left_out_words": about["left_out_words"],
        "least_count": about["least_count"],
        "same_merges": same,
        "times_as_fast": theirs.seconds / seconds,
        "ours": figures(ours, size),
        "tokenizers": figures([theirs], size),
    }
    print(
        f"{found['times_as_fast']:.1f} times as fast as tokenizers ({seconds:,.0f} against "
        f"{theirs.seconds:,.0f} s on {size / 1e6:,.0f} MB with {about['words']:,} words); "
        f"peak {max(one.peak_mb for one in ours):,.0f} against {theirs.peak_mb:,.0f} MB; "
        f"{'the same' if same else 'OTHER'} merges"
    )
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "train_tokenizer.json").write_text(json.dumps(found, indent=2) + "\n")


def train(text: Path, out: Path, vocab_size: str, max_ram: str) -> Run:
    shutil.rmtree(out, ignore_errors=True)
    flags = ["--separator", corpus.SEPARATOR.decode(), "--no_normalize", "--no_dedup", "--quiet"]
    flags += ["--vocab_size", vocab_size, "--max_ram", max_ram, "--workers", str(WORKERS)]
    command = [sys.executable, "-m", "tokenmill", "tokenizer", "train", str(text), "-o", str(out)]
    return run([*command, *flags])


def figures(runs: list[Run], size: int) -> dict[str, float]:
    return {
        "seconds": statistics.mean(one.seconds for one in runs),
        "cpu_seconds": statistics.mean(one.cpu_seconds for one in runs),
        "mb_per_s": size / min(one.seconds for one in runs) / 1e6,
        "peak_mb": max(one.peak_mb for one in runs),
    }


def merges_of(path: Path) -> list[list[str]]:
    merges: list[list[str]] = json.loads(path.read_bytes())["model"]["merges"]
    return merges


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="documents with <|endoftext|> between them")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--vocab_size", type=int, default=32768)
    parser.add_argument("--max_ram", default="1G")
    parser.add_argument("--folder", type=Path, help="where to work; removed in the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
