"""Do the filters decide as datatrove's do, and how fast? Both in one run, on the same documents.

    python bench/filters.py --corpus english.txt
    python bench/filters.py --corpus english.txt --only agree --documents 100000 --folder DIR

`agree` compares every decision, reason and changed text on documents of three kinds
(filter_documents.py); datatrove's are kept in the folder, so a run may be stopped and continued.
`speed` times the filters alone on one core, datatrove's pipeline on a part of the same documents,
and the whole command `prepare` with 2 workers, with and without them.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import filter_documents
import numpy as np
from environments import python_of
from measure import machine, run

HERE = Path(__file__).parent
sys.path = [folder for folder in sys.path if Path(folder).resolve() != HERE]

from tokenmill.text.filters.rule import Batch, Rule, load_filter  # noqa: E402
from tokenmill.text.filters.rule_chain import RuleChain  # noqa: E402
from tokenmill.text.reading.chunks import Chunk  # noqa: E402

RESULTS = HERE / "results" / "filters.json"
RIVAL = HERE / "rivals" / "filters_datatrove.py"
NAMES = ("gopher_quality", "gopher_repetition", "fineweb", "c4")  # as the rival writes them
IN_ORDER = "gopher_quality,gopher_repetition,c4,fineweb"
CHUNK_BYTES = 1 << 20
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--only", choices=("agree", "speed"))
    parser.add_argument("--documents", type=int, default=100_002)
    parser.add_argument("--processes", type=int, default=2, help="of datatrove, to compare")
    parser.add_argument("--megabytes", type=int, default=400, help="of text for prepare")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="tokenmill-bench-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    options.rival = python_of("datatrove", options.venvs)
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found["machine"] = machine()
    for name, measure in (("agree", agree), ("speed", speed)):
        if options.only in (None, name):
            found[name] = measure(options)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def agree(options: argparse.Namespace) -> dict[str, Any]:
    """Decisions that are equal, by kind of text and filter."""
    path = options.folder / "documents.jsonl"
    if not path.exists():
        with open(path, "w") as file:
            for kind, text in filter_documents.documents(options.corpus, options.documents):
                file.write(json.dumps({"kind": kind, "text": text}) + "\n")
    with open(path, "rb") as lines:
        documents = [json.loads(line) for line in lines]
    theirs = sorted(decisions(options, path))
    numbers = [number for number, _ in theirs]
    kinds = [documents[number]["kind"] for number in numbers]
    texts = [documents[number]["text"].encode() for number in numbers]
    found: dict[str, Any] = {
        "documents": dict(Counter(kinds)),
        "megabytes": round(sum(map(len, texts)) / 1e6, 1),
    }
    for position, name in enumerate(NAMES):
        expected = [kept[position] for _, kept in theirs]
        found[name] = compare(load_filter(name, {}), texts, kinds, expected)
    all_kept = [kept[4][0] if kept[4] else all(part[0] for part in kept[:4]) for _, kept in theirs]
    found["all four in order"] = equal_share(
        kinds, [a == b for a, b in zip(chained(texts), all_kept, strict=True)]
    )
    return found


def decisions(options: argparse.Namespace, path: Path) -> Iterator[tuple[int, list[Any]]]:
    """What datatrove decides, in several processes; what a run before has found is taken."""
    files = [options.folder / f"decisions.{part}" for part in range(options.processes)]
    command = [str(options.rival), str(RIVAL), "decide", str(path)]
    processes = [
        subprocess.Popen([*command, str(file), str(part), str(options.processes)])
        for part, file in enumerate(files)
    ]
    if any(process.wait() for process in processes):
        raise RuntimeError("datatrove failed")
    for file in files:
        with open(file, "rb") as lines:
            yield from map(json.loads, lines)


def compare(
    rule: Rule, texts: list[bytes], kinds: list[str], expected: list[Any]
) -> dict[str, Any]:
    """Equal decisions by kind; and, of documents both drop, pairs of reasons."""
    verdict = rule.apply(Batch.of(texts))
    same: list[bool] = []
    pairs = Counter[str]()
    num_texts = num_other_texts = 0
    for number, (code, (kept, why, text)) in enumerate(
        zip(verdict.reasons.tolist(), expected, strict=True)
    ):
        same.append(kept == (code == 0))
        if code and not kept:
            pairs[f"{rule.reasons[code - 1]} = {why}"] += 1
        if rule.name == "c4" and kept and not code:
            ours = verdict.texts.get(number)
            num_texts += 1
            num_other_texts += (ours and ours.decode()) != text
    changed = {"kept texts": num_texts, "that differ": num_other_texts} if num_texts else {}
    return {**equal_share(kinds, same), **changed, "reasons": dict(pairs.most_common())}


def equal_share(kinds: list[str], same: list[bool]) -> dict[str, Any]:
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for kind, is_same in zip(kinds, same, strict=True):
        by_kind[kind].append(is_same)
    return {
        "equal": sum(same) / len(same),
        "different": {kind: some.count(False) for kind, some in by_kind.items()},
    }


def chained(texts: list[bytes]) -> list[bool]:
    """True for texts that all four leave."""
    out = chain().apply(Chunk(list(texts), numbers=np.arange(len(texts), dtype=np.uint32)), {})
    kept = np.zeros(len(texts), np.bool_)
    kept[out.numbers] = True
    return kept.tolist()  # type: ignore[no-any-return]


def chain() -> RuleChain:
    return RuleChain([load_filter(name, {}) for name in IN_ORDER.split(",")])


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Megabytes a second."""
    mixes = {
        "english": corpus.documents(options.corpus),
        "code and english": corpus.mix(options.corpus),
    }
    found = {kind: filters_alone(docs, options) for kind, docs in mixes.items()}
    return {**found, "prepare": whole_command(options)}


def filters_alone(docs: list[bytes], options: argparse.Namespace) -> dict[str, float]:
    """CPU seconds of one core: the filters on all documents, datatrove's on a part, in turns."""
    rules, chunks = chain(), list(chunks_of(docs))
    rules.apply(Chunk([b"The first text makes the tables."], numbers=np.zeros(1, np.uint32)), {})
    part = next(chunks_of(random.Random(0).sample(docs, len(docs))))
    path = options.folder / "part.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text.decode("utf-8", "replace")}) + "\n" for text in part)
    )
    ours, theirs = [], []
    for number in range(options.rounds):
        began = time.process_time()
        for texts in chunks:
            rules.apply(Chunk(texts, numbers=np.arange(len(texts), dtype=np.uint32)), {})
        ours.append(time.process_time() - began)
        if options.rival and number < 2:
            output = run([str(options.rival), str(RIVAL), "time", str(path)]).output
            theirs.append(json.loads(output.splitlines()[-1])["cpu_seconds"])
    result = {
        "megabytes": sum(map(len, docs)) / 1e6,
        "ours_mb_per_core_second": sum(map(len, docs)) / 1e6 / min(ours),
    }
    if theirs:
        result["datatrove_megabytes"] = sum(map(len, part)) / 1e6
        result["datatrove_mb_per_core_second"] = sum(map(len, part)) / 1e6 / min(theirs)
        result["ratio"] = result["ours_mb_per_core_second"] / result["datatrove_mb_per_core_second"]
    return {key: round(value, 3) for key, value in result.items()}


def chunks_of(docs: list[bytes]) -> Iterator[list[bytes]]:
    """As a preparation reads them."""
    texts, size = list[bytes](), 0
    for doc in docs:
        texts.append(doc)
        size += len(doc)
        if size >= CHUNK_BYTES:
            yield texts
            texts, size = [], 0
    yield texts


def whole_command(options: argparse.Namespace) -> dict[str, Any]:
    """`tokenmill prepare` from start to exit, with the filters and without, in turns."""
    text, out = options.folder / "corpus.txt", options.folder / "out"
    num_bytes = text.stat().st_size if text.exists() else 0
    if not num_bytes:
        num_bytes = corpus.write_text(corpus.documents(options.corpus), text, options.megabytes)
    plain = [sys.executable, "-m", "tokenmill", "prepare", str(text), "-o", str(out), "--overwrite",
             "--workers", str(WORKERS), "--separator", corpus.SEPARATOR.decode()]  # fmt: skip
    commands = {"with": [*plain, "--filter", IN_ORDER], "without": plain}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            took = run(command)
            seconds[name].append(took.seconds)
            cpu[name].append(took.cpu_seconds)
    best = {name: min(some) for name, some in seconds.items()}
    return {
        "megabytes": round(num_bytes / 1e6),
        "workers": WORKERS,
        "mb_per_second": {name: round(num_bytes / 1e6 / some, 1) for name, some in best.items()},
        "mb_per_cpu_second": {
            name: round(num_bytes / 1e6 / min(some), 1) for name, some in cpu.items()
        },
        "median_seconds": {
            name: round(statistics.median(some), 2) for name, some in seconds.items()
        },
    }


if __name__ == "__main__":
    main()
