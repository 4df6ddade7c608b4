"""What does a change of tokenizer cost? `tokenmill retokenize` against `prepare` of the same text.

    python bench/retokenize.py --corpus english.txt

The text becomes a dataset of GPT-2's ids; a tokenizer is trained on the corpus. Then, in turns and
as whole commands: `prepare` of the text with that tokenizer, without cleaning and deduplication,
and `retokenize` of the dataset to it. Both must give the same tokens.
Results go to bench/results/retokenize.json.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from measure import Run, machine, run
from prepare import WORKERS

import tokenmill

HERE = Path(__file__).parent
SEPARATED = ["--separator", corpus.SEPARATOR.decode()]
AT_ONCE = 50_000_000  # tokens that are compared
PLAIN = [*SEPARATED, "--no_normalize", "--no_dedup", "--val_fraction", "0"]


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        text, old, tokenizer = folder / "text.txt", folder / "old", folder / "tok"
        docs = corpus.documents(options.corpus)
        corpus.write_text(docs, text, 10)
        flags = ["--vocab_size", str(options.vocab_size), *SEPARATED]
        command("tokenizer", "train", text, "-o", tokenizer, *flags)
        size = corpus.write_text(docs, text, options.megabytes)
        command("prepare", text, "-o", old, *PLAIN)
        runs: dict[str, list[Run]] = {"prepare": [], "retokenize": []}
        for _ in range(options.rounds):
            for kind, arguments in {
                "prepare": ["prepare", text, *PLAIN],
                "retokenize": ["retokenize", old],
            }.items():
                out = folder / kind
                shutil.rmtree(out, ignore_errors=True)
                flags = ["-o", str(out)] if kind == "prepare" else [str(out)]
                runs[kind].append(command(*arguments, *flags, "--tokenizer", tokenizer))
        check_equal(*(tokenmill.open(folder / kind, "all") for kind in runs))
        tokens = tokenmill.open(old, "all")
    found: dict[str, Any] = {
        "machine": machine(), "workers": WORKERS, "text_mb": size / 1e6,
        "tokens_mb": tokens.num_tokens * tokens.dtype.itemsize / 1e6,
        "vocab_size": options.vocab_size,
    }  # fmt: skip
    for kind, done in runs.items():
        seconds, cpu = (min(getattr(r, part) for r in done) for part in ("seconds", "cpu_seconds"))
        peak = max(r.peak_mb for r in done)
        found[kind] = {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak}
    for part in ("seconds", "cpu_seconds"):
        found[f"ratio_of_{part}"] = found["prepare"][part] / found["retokenize"][part]
    print(json.dumps(found, indent=2))
    (HERE / "results" / "retokenize.json").write_text(json.dumps(found, indent=2) + "\n")


def check_equal(one: tokenmill.TokenDataset, other: tokenmill.TokenDataset) -> None:
    assert one.num_tokens == other.num_tokens
    for start in range(0, one.num_tokens, AT_ONCE):
        stop = min(start + AT_ONCE, one.num_tokens)
        assert np.array_equal(one.tokens(start, stop), other.tokens(start, stop))


def command(*arguments: object) -> Run:
    settings = ["--quiet", "--workers", str(WORKERS)]
    return run([sys.executable, "-m", "tokenmill", *map(str, arguments), *settings])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="documents with <|endoftext|> between them")
    parser.add_argument("--megabytes", type=int, default=2200, help="of text: 1 GB of tokens")
    parser.add_argument("--vocab_size", type=int, default=32768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work; removed in the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
