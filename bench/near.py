"""Near-duplicates: against brute force, against rensa, and from 10,000 to 10,000,000 documents.

`truth`: 20,000 made-up documents with edited copies among them; what `prepare --dedup near` left
out is compared with all similar pairs, which brute force finds without any code of tokenmill.

`speed`: from text to decision, in one process on one core: what `--dedup near` adds to a
preparation, the same work without tokens (texts in memory), and rensa with Python's runs of words,
which decides by its estimates and verifies nothing. CPU seconds, the best of some runs: others use
this machine.

`growth`: whole preparations inside `--max_ram 1G`: CPU time, largest memory, and bytes on disk that
near-duplicates add for each document.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import machine, run
from near_documents import documents, similar_pairs

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.preparation import Details, Run
from tokenmill.text.near.candidates import pair_up, unique_pairs
from tokenmill.text.near.choose import choose_kept
from tokenmill.text.near.sketch import NUM_BANDS, hash_bands
from tokenmill.text.near.word_runs import compare

RESULTS = Path(__file__).parent / "results" / "near.json"
RIVAL = Path(__file__).parent / "rivals" / "near_rensa.py"
THRESHOLD = 0.8
WIDTH = 5
NEAR_STAGES = ("near-existing", "near-bands", "near-candidates", "near-pairs", "near-choice")
EXACT_STAGES = ("existing-documents", "documents", "document-duplicates")
# Documents that growth is measured with: one word of fifty changed leaves a similarity of 0.80.
WORDS_PER_DOCUMENT = 50
LETTERS = 6
VOCABULARY = 20_000


def write_jsonl(texts: Iterator[str], path: Path) -> None:
    with open(path, "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def removed_in(dataset: Path) -> dict[int, tuple[int, float]]:
    """What the record of a dataset says: document -> the one that stays, and the similarity."""
    (path,) = dataset.glob("removed-*.jsonl")
    _, *lines = map(json.loads, path.read_text().splitlines())
    return {line[1]: (line[5], line[3]) for line in lines if len(line) > 4}


def truth(number: int, folder: Path) -> dict[str, object]:
    """Compare what goes with what brute force finds."""
    texts = list(documents(number))
    write_jsonl(iter(texts), folder / "truth.jsonl")
    similar = similar_pairs(texts, THRESHOLD)
    # Exact duplicates go before: their first copy stays.
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    exact = [first[text] < at for at, text in enumerate(texts)]
    pairs = {pair: j for pair, j in similar.items() if not exact[pair[0]] and not exact[pair[1]]}
    neighbours: dict[int, list[int]] = {}
    for a, b in pairs:
        neighbours.setdefault(b, []).append(a)
    expected: set[int] = set()
    for document in sorted(neighbours):
        if any(other not in expected for other in neighbours[document]):
            expected.add(document)
    found = {}
    for keep in ("first", "longest"):
        out = folder / f"truth-{keep}"
        tokenmill.prepare(
            folder / "truth.jsonl",
            out,
            dedup="near",
            workers=1,
            details=Details(near_keep=keep),
            run=Run(unit_bytes=1 << 20),
        )
        removed = removed_in(out)
        wrong = [
            at
            for at, (kept, value) in removed.items()
            if kept in removed or abs(similar.get((min(at, kept), max(at, kept)), 0) - value) > 1e-9
        ]
        left = [pair for pair in pairs if not removed.keys() & set(pair)]
        found[keep] = {
            "removed": len(removed),
            "precision": 1 - len(wrong) / len(removed),
            "similar pairs left": len(left),
            "recall": 1 - len(left) / len(pairs),
        }
    removed_first = removed_in(folder / "truth-first").keys()
    found["first"]["removed by brute force"] = len(expected)
    found["first"]["in both"] = len(expected & removed_first)
    encoded = [text.encode() for text in texts]
    candidates = candidate_pairs(encoded)
    wanted = {pair for pair in similar if not exact[pair[0]] and not exact[pair[1]]}
    recall = len(wanted & set(map(tuple, candidates.tolist()))) / len(wanted)
    return {
        "documents": number,
        "similar pairs": len(similar),
        "of them found as candidates": recall,
        **found,
    }


def candidate_pairs(texts: list[bytes]) -> np.ndarray:
    """Pairs (earlier, later) of texts that share a band."""
    bands, counts = hash_bands(texts, WIDTH)
    (some,) = np.nonzero(counts)
    owners = np.repeat(some.astype(np.uint64), NUM_BANDS)
    pairs = pair_up(bands[some].reshape(-1), owners, lambda numbers: numbers.astype(np.int64))
    return unique_pairs(pairs[:, ::-1].astype(np.int64))


def decide(texts: list[bytes]) -> int:
    """From texts to decision, all in memory; how many go."""
    pairs = candidate_pairs(texts)
    shared, together = compare(texts, pairs, WIDTH)
    similarity = shared / together
    is_similar = similarity >= THRESHOLD
    kept = choose_kept(pairs[is_similar], similarity[is_similar], len(texts))
    return int((kept >= 0).sum())


class StageTimes(Progress):
    """CPU seconds of each stage of a preparation in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def follow(self, what, results, **options):
        began = time.process_time()
        yield from results
        self.seconds[what] = time.process_time() - began


def speed(number: int, rensa: Path | None, folder: Path, repeats: int) -> dict[str, object]:
    """Documents per CPU second."""
    texts = list(documents(number))
    write_jsonl(iter(texts), folder / "speed.jsonl")
    encoded = [text.encode() for text in texts]
    in_memory, in_prepare, rival = [], [], []
    for _ in range(repeats):
        began = time.process_time()
        decide(encoded)
        in_memory.append(time.process_time() - began)
        with tempfile.TemporaryDirectory() as scratch:
            times = StageTimes()
            out = Path(scratch, "out")
            tokenmill.prepare(
                folder / "speed.jsonl", out, dedup="near", workers=1, run=Run(progress=times)
            )
        in_prepare.append(
            sum(
                times.seconds[name]
                for name in (*NEAR_STAGES, *EXACT_STAGES)
                if name in times.seconds
            )
        )
        if rensa is not None:
            done = subprocess.run(
                [str(rensa), str(RIVAL), str(folder / "speed.jsonl"), str(THRESHOLD)],
                check=True,
                capture_output=True,
                text=True,
            )
            rival.append(json.loads(done.stdout)["cpu_seconds"])
    best = {"in memory": min(in_memory), "stages of prepare": min(in_prepare)}
    best |= {"rensa": min(rival)} if rival else {}
    return {
        "documents": number,
        "bytes per document": sum(map(len, encoded)) // number,
        "documents per CPU second": {name: round(number / value) for name, value in best.items()},
        "times rensa": {
            name: round(best["rensa"] / value, 2) for name, value in best.items() if rival
        },
        "documents per CPU second, each run": {
            "in memory": [round(number / value) for value in in_memory],
            "stages of prepare": [round(number / value) for value in in_prepare],
            "rensa": [round(number / value) for value in rival],
        },
    }


def write_many(number: int, path: Path) -> None:
    """Write made-up documents; every fifth is an earlier one with a word changed.

    The earlier one is among the last 20,000. All of it is done on arrays: a loop over words would
    take longer than what is measured.
    """
    chosen = np.random.default_rng(0)
    letters = chosen.integers(ord("a"), ord("z") + 1, (VOCABULARY, LETTERS), np.uint8)
    words = np.concatenate([letters, np.full((VOCABULARY, 1), ord(" "), np.uint8)], axis=1)
    begin, end = (np.frombuffer(part, np.uint8) for part in (b'{"text":"', b'"}\n'))
    recent = np.empty((0, WORDS_PER_DOCUMENT), np.int64)
    with open(path, "wb") as file:
        for start in range(0, number, 10_000):
            size = min(10_000, number - start)
            rows = chosen.integers(0, VOCABULARY, (size, WORDS_PER_DOCUMENT))
            if len(recent):
                copies = np.arange(0, size, 5)
                rows[copies] = recent[chosen.integers(0, len(recent), len(copies))]
                changed = chosen.integers(0, WORDS_PER_DOCUMENT, len(copies))
                rows[copies, changed] = chosen.integers(0, VOCABULARY, len(copies))
            recent = np.concatenate([recent[-10_000:], rows])
            texts = words[rows].reshape(size, -1)[:, :-1]
            lines = [np.broadcast_to(begin, (size, len(begin))), texts]
            lines.append(np.broadcast_to(end, (size, len(end))))
            file.write(np.concatenate(lines, axis=1).data)


def growth(sizes: list[int], folder: Path) -> Iterator[dict[str, object]]:
    """Whole preparations, each in its own process."""
    for number in sizes:
        source = folder / f"{number}.jsonl"
        write_many(number, source)
        out = folder / "out"
        command = [sys.executable, __file__, "one", str(source)]
        near = run([*command, str(out / "near"), "--dedup", "near"])
        use = json.loads(near.output.splitlines()[-1])
        manifest = json.loads((out / "near" / "dataset_metadata.json").read_text())
        row = {
            "documents": number,
            "dropped": manifest["accounts"]["dropped"],
            "cpu_seconds": round(near.cpu_seconds, 1),
            "cpu microseconds per document": round(1e6 * near.cpu_seconds / number, 1),
            "peak_mb": round(near.peak_mb),
            "bytes on disk per document": round(use["bytes"] / number, 1),
        }
        yield row
        plain = run([*command, str(out / "none"), "--dedup", "none"])
        added = near.cpu_seconds - plain.cpu_seconds
        row["cpu_seconds without"] = round(plain.cpu_seconds, 1)
        row["added microseconds per document"] = round(1e6 * added / number, 1)
        yield row
        subprocess.run(["rm", "-r", str(out), str(source)], check=True)


class DiskUse(Progress):
    """The largest size of the files that near-duplicates add, after each stage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_bytes = 0

    def follow(self, what, results, **options):
        yield from results
        if what.startswith("near"):
            files = (self.folder / ".preparation" / "near").rglob("*")
            self.num_bytes = max(self.num_bytes, sum(file.stat().st_size for file in files))


def one(source: Path, out: Path, dedup: str) -> None:
    """One preparation, inside 1 GB."""
    use = DiskUse(out)
    settings = {"dedup": dedup, "run": Run(max_ram="1G", progress=use)}
    tokenmill.prepare(source, out, workers=2, **settings)
    print(json.dumps({"bytes": use.num_bytes}))


def save(results: dict[str, object]) -> None:
    """Add to the results that are there."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, "machine": machine(), **results}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["truth", "speed", "growth", "one"])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--dedup", default="near")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rensa", type=Path, help="a Python that has rensa")
    parser.add_argument("--folder", type=Path, help="where there is room")
    options = parser.parse_args()
    if options.what == "one":
        return one(*options.paths, options.dedup)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.what == "truth":
            save({"truth": truth(options.documents, folder)})
        elif options.what == "speed":
            save({"speed": speed(options.documents, options.rensa, folder, options.repeats)})
        else:
            known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            rows = {row["documents"]: row for row in known.get("growth", [])}
            for row in growth(options.sizes, folder):
                rows[row["documents"]] = row
                save({"growth": [rows[size] for size in sorted(rows)]})
    return None


if __name__ == "__main__":
    main()
