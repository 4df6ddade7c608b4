"""Does every family give the right ids, and how fast? Against the package its file is from.

    python bench/tokenizers.py --corpus english.txt
    python bench/tokenizers.py --only equal --families Gemma --megabytes 50

Tokenizers of each family are trained here (`families.py`) on text of seven scripts
(`mixed_text.py`). `equal` compares every id on 200 MB of such text. `prepare` times the whole
command with 2 workers against the package on 2 threads, in turn, on the corpus. Each family is
written to bench/results/tokenizers.json when it is done, so a run may be stopped and continued.
"""

import argparse
import itertools
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import families
import mixed_text
import numpy as np
from measure import machine, run

# This file has the name of the package, which is looked for here first.
sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).parent]

import tokenmill  # noqa: E402
from tokenmill.tokens.tokenizer_json import byte_letters  # noqa: E402

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tokenizers.json"
BATCH = 500  # texts
TRAINING_TEXTS = 4000
WORKERS = 2


def main() -> None:
    options = parse()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    docs, code = corpus.documents(options.corpus), corpus.documents(None)
    made = itertools.islice(mixed_text.texts(docs, code, seed=1), TRAINING_TEXTS)
    training = [text.decode() for text in made]
    mixed = folder / f"mixed-{options.megabytes}.txt"
    if not mixed.exists():
        mixed_text.write_texts(docs, code, mixed, options.megabytes)
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found |= {"machine": machine(), "workers": WORKERS, "scripts": list(mixed_text.SCRIPTS)}
    for family in options.families or families.FAMILIES:
        path = families.train(family, folder, training)
        entry = found.setdefault("families", {}).setdefault(family, {})
        entry["encoder"] = tokenmill.load_tokenizer(str(path)).backend
        if "equal" in options.only and entry["encoder"] == "gigatoken":
            entry["equal"] = equal(path, mixed.read_bytes().split(corpus.SEPARATOR))
        if "prepare" in options.only:
            is_fast = family in families.BYTE_LEVEL
            size = options.prepare_megabytes if is_fast else options.slow_megabytes
            entry["prepare"] = prepare(path, folder, docs, size, options.rounds)
        print(family, json.dumps(entry), flush=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def equal(path: Path, texts: list[bytes]) -> dict[str, Any]:
    """Compare every id; the first texts that differ end the run."""
    ours, theirs = tokenmill.load_tokenizer(str(path)), package(path)
    tokens, seconds = 0, [0.0, 0.0]
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        strings = [text.decode() for text in batch]
        started = time.perf_counter()
        ids, _ = ours.encode_batch(batch)
        middle = time.perf_counter()
        expected = list(itertools.chain.from_iterable(theirs(strings)))
        seconds[0] += middle - started
        seconds[1] += time.perf_counter() - middle
        if len(expected) != len(ids) or not np.array_equal(np.array(expected, np.uint32), ids):
            raise SystemExit(f"{path}: other ids in one of the texts from {batch[0][:60]!r} on")
        tokens += len(ids)
    size = sum(map(len, texts))
    return {
        "megabytes": size / 1e6,
        "tokens": tokens,
        "our_mb_per_s_one_core": size / seconds[0] / 1e6,
        "their_mb_per_s_all_cores": size / seconds[1] / 1e6,
    }


def package(path: Path) -> Callable[[list[str]], list[list[int]]]:
    """An encoder that is not ours: tiktoken where it can be, which is the fastest of them."""
    sys.path.insert(0, str(HERE / "rivals"))
    import prepare_tokenizers as rival

    if path.suffix == ".model":
        return rival.of_sentencepiece(str(path))
    tree = json.loads(path.read_text())
    steps = (tree["pre_tokenizer"] or {}).get("pretokenizers", [])
    is_one_regex = [step["type"] for step in steps] == ["Split", "ByteLevel"]
    return _of_tiktoken(tree) if is_one_regex else rival.of_tokenizers(str(path))


def _of_tiktoken(tree: dict[str, Any]) -> Callable[[list[str]], list[list[int]]]:
    from tiktoken import Encoding

    letters = byte_letters()
    special = {token["content"] for token in tree["added_tokens"]}
    vocab = {text: number for text, number in tree["model"]["vocab"].items() if text not in special}
    ranks = {bytes(letters[c] for c in text): number for text, number in vocab.items()}
    regex = tree["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return Encoding(
        "trained", pat_str=regex, mergeable_ranks=ranks, special_tokens={}
    ).encode_ordinary_batch


def prepare(
    path: Path, folder: Path, docs: list[bytes], megabytes: int, rounds: int
) -> dict[str, Any]:
    """Time the whole command and the package in turn, on the same text."""
    text, out = folder / f"corpus-{megabytes}.txt", folder / "out"
    size = text.stat().st_size if text.exists() else corpus.write_text(docs, text, megabytes)
    command = [sys.executable, "-m", "tokenmill", "prepare", str(text), "-o", str(out), "--quiet"]
    command += ["--tokenizer", str(path), "--separator", "<|endoftext|>", "--no_normalize"]
    command += ["--no_dedup", "--workers", str(WORKERS)]
    rival = [sys.executable, str(HERE / "rivals" / "prepare_tokenizers.py"), str(path), str(text)]
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run(command))
        shutil.rmtree(out)
        theirs.append(run([*rival, str(folder / "out.bin")]))
        (folder / "out.bin").unlink()
    ratios = [their.seconds / our.seconds for our, their in zip(ours, theirs, strict=True)]
    return {
        "megabytes": size / 1e6,
        "our_mb_per_s": size / min(r.seconds for r in ours) / 1e6,
        "their_mb_per_s": size / min(r.seconds for r in theirs) / 1e6,
        "times_as_fast": statistics.median(ratios),
        "times_less_cpu": sum(r.cpu_seconds for r in theirs) / sum(r.cpu_seconds for r in ours),
        "our_peak_mb": max(r.peak_mb for r in ours),
        "their_peak_mb": max(r.peak_mb for r in theirs),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="text, documents ended by <|endoftext|>")
    both = ("equal", "prepare")
    parser.add_argument("--only", nargs="+", choices=both, default=both)
    parser.add_argument("--families", nargs="+", choices=families.FAMILIES)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--prepare-megabytes", type=int, default=400)
    parser.add_argument("--slow-megabytes", type=int, default=20, help="for the slower families")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=Path("/tmp/tokenmill-tokenizers"), help="where to work"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
