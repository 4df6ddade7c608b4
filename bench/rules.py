"""What rules cost: a function that changes nothing, a slow one, masking, a filter; and growth.

One process prepares JSON lines of source code with GPT-2's tokenizer, with each rule and without,
in turns; compared is the least CPU time of each, which says more than the clock where others use
the machine. Then short documents, ten times as many each time, of which a filter leaves out half.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import orjson
from corpus import source_code
from measure import Run, machine, run

RESULTS = Path(__file__).parent / "results" / "rules.json"
FUNCTIONS = """
def identity(documents):
    return documents.texts

def slow(documents):
    return [text for text in documents.texts if sum(map(ord, text)) or text]
"""
RULES = {
    "plain": [],
    "map: identity": ["--map", "functions:identity"],
    "map: slow": ["--map", "functions:slow"],
    "mask": ["--mask", "email,ip"],
    "filter: length": ["--filter", "length"],
}
SHARE = re.compile(r"the function \S+ took (\d+)%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--documents", type=int, default=1_000_000, help="the most, for growth")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "functions.py").write_text(FUNCTIONS)
        results = {
            "machine": machine(),
            "megabytes": options.megabytes,
            "rules": cost_of_rules(folder, options.megabytes, options.repeats),
            "growth": growth(folder, options.documents),
        }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


def cost_of_rules(folder: Path, megabytes: int, repeats: int) -> dict[str, dict[str, float]]:
    """CPU seconds of each rule, and as a ratio to none."""
    corpus = folder / "code.jsonl"
    with open(corpus, "wb") as file:
        while file.tell() < megabytes * 1_000_000:
            for text in source_code():
                file.write(orjson.dumps({"text": text.decode()}) + b"\n")
    runs: dict[str, list[Run]] = {name: [] for name in RULES}
    for _ in range(repeats):
        for name, flags in RULES.items():
            runs[name].append(prepare(folder, corpus, flags))
    seconds = {name: min(each.cpu_seconds for each in some) for name, some in runs.items()}
    found = {
        name: {"cpu_seconds": round(s, 2), "ratio": round(s / seconds["plain"], 3)}
        for name, s in seconds.items()
    }
    share = SHARE.search(runs["map: slow"][-1].output)
    found["map: slow"]["share_reported"] = int(share[1]) / 100 if share else 0.0
    return found


def growth(folder: Path, most: int) -> list[dict[str, float]]:
    """CPU seconds and memory for ever more documents."""
    found = []
    number = 10_000
    while number <= most:
        corpus = folder / "short.jsonl"
        with open(corpus, "wb") as file:
            for at in range(number):
                text = f"document {at} " * (8 if at % 2 else 24)
                file.write(orjson.dumps({"text": text}) + b"\n")
        done = prepare(folder, corpus, ["--filter", "length", "--map", "functions:identity"])
        found.append(
            {
                "documents": number,
                "cpu_seconds": round(done.cpu_seconds, 2),
                "microseconds_per_document": round(done.cpu_seconds / number * 1e6, 1),
                "peak_mb": round(done.peak_mb),
            }
        )
        number *= 10
    return found


def prepare(folder: Path, corpus: Path, flags: list[str]) -> Run:
    """Prepare the corpus with one worker."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.executable, "-m", "tokenmill", "prepare", str(corpus), "-o", "out"]
    return run([*command, "--workers", "1", *flags], cwd=folder)


if __name__ == "__main__":
    main()
