"""Test items planted in 100 MB of text: which documents are found, and what looking costs.

Made-up documents hold items of two test sets as they are, and lightly edited: other case,
punctuation and line breaks, and one word in forty, at least one, replaced. Others hold what must
not count: an instruction that is in many documents, and the words of an item in another order. CPU
seconds of whole preparations by one worker, the best of some runs: others use this machine.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import machine, run
from near_documents import vocabulary

RESULTS = Path(__file__).parent / "results" / "decontaminate.json"
WORDS_PER_DOCUMENT = 300
NUM_ITEMS = 1000  # of each test set
PLANTED = 500  # of each kind
COMMAND = [sys.executable, "-m", "tokenmill", "prepare", "--workers", "1", "--quiet"]


def edited(words: list[str], known: list[str], chosen: random.Random) -> list[str]:
    words = list(words)
    for _ in range(max(1, len(words) // 40)):
        words[chosen.randrange(len(words))] = chosen.choice(known)
    return [
        chosen.choice((word, word.capitalize(), word.upper()))
        + chosen.choice(("", "", ",", " -\n"))
        for word in words
    ]


def make_inputs(folder: Path, megabytes: int) -> dict[int, str]:
    """Write texts and test sets; return what is planted in which document."""
    chosen = random.Random(0)
    known = vocabulary()
    items = []
    for name in ("reading", "sums"):
        own = [chosen.choices(known, k=chosen.randrange(20, 80)) for _ in range(NUM_ITEMS)]
        lines = (json.dumps({"question": " ".join(item), "answer": "yes"}) for item in own)
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
        items += own
    instruction = chosen.choices(known, k=20)
    items += [instruction + chosen.choices(known, k=20) for _ in range(10)]
    lines = (json.dumps({"prompt": " ".join(item)}) for item in items[-10:])
    (folder / "instructed.jsonl").write_text("\n".join(lines))
    number = megabytes * 1_000_000 // (WORDS_PER_DOCUMENT * 5 + 12)
    kinds = ["embedded", "edited", "shuffled", "instruction"] * PLANTED
    planted = dict(zip(sorted(chosen.sample(range(number), len(kinds))), kinds, strict=True))
    with open(folder / "texts.jsonl", "w") as file:
        for at in range(number):
            words = chosen.choices(known, k=WORDS_PER_DOCUMENT)
            item = list(chosen.choice(items))
            if kind := planted.get(at):
                if kind == "edited":
                    item = edited(item, known, chosen)
                elif kind == "shuffled":
                    chosen.shuffle(item)
                elif kind == "instruction":
                    item = instruction
                words[150:150] = item
            file.write(json.dumps({"text": " ".join(words)}) + "\n")
    return planted


def found_in(dataset: Path) -> set[int]:
    (path,) = dataset.glob("removed-*.jsonl")
    return {json.loads(line)[1] for line in path.read_text().splitlines()[1:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted = make_inputs(folder, options.megabytes)
        sets = [str(folder / f"{name}.jsonl") for name in ("reading", "sums", "instructed")]
        plain = [*COMMAND, str(folder / "texts.jsonl"), "-o", str(folder / "out")]
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(options.repeats):
            for kind, more in (("without", []), ("with", ["--decontaminate", *sets])):
                subprocess.run(["rm", "-rf", str(folder / "out")], check=True)
                seconds[kind].append(run([*plain, *more]).cpu_seconds)
        found = found_in(folder / "out")
        size = (folder / "texts.jsonl").stat().st_size
    is_item = {at for at, kind in planted.items() if kind in ("embedded", "edited")}
    results = {
        "machine": machine(),
        "megabytes": round(size / 1e6),
        "planted of each kind": PLANTED,
        "recall": {
            kind: sum(at in found for at, own in planted.items() if own == kind) / PLANTED
            for kind in ("embedded", "edited")
        },
        "precision": len(found & is_item) / len(found),
        "found that must not count": {
            kind: sum(at in found for at, own in planted.items() if own == kind)
            for kind in ("shuffled", "instruction")
        },
        "cpu_seconds": {kind: round(min(each), 2) for kind, each in seconds.items()},
        "cpu_seconds, each run": {
            kind: [round(value, 2) for value in each] for kind, each in seconds.items()
        },
        "speed, of that without": round(min(seconds["without"]) / min(seconds["with"]), 3),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
