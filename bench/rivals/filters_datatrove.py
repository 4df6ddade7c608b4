"""What datatrove's four filters decide, one line of JSON per document: filters.py compares it.

Runs with the Python of datatrove's environment:
    filters_datatrove.py decide DOCUMENTS.jsonl DECISIONS PART PARTS
    filters_datatrove.py time DOCUMENTS.jsonl
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.filters.base_filter import get_filter_result


def main() -> None:
    action, documents, *rest = sys.argv[1:]
    with open(documents, "rb") as lines:
        if action == "time":
            print(json.dumps(pipeline(lines)))
        else:
            decide(lines, Path(rest[0]), int(rest[1]), int(rest[2]))


def decide(lines: Iterable[bytes], path: Path, part: int, parts: int) -> None:
    """Write [number, the decisions of the four filters, of fineweb after c4]; may be continued."""
    quality, repetition, c4, fineweb = filters()
    done = path.read_bytes().count(b"\n") if path.exists() else 0
    with open(path, "a", buffering=1) as file:
        for number, line in enumerate(lines):
            if number % parts != part:
                continue
            if done:
                done -= 1
                continue
            text = json.loads(line)["text"]
            kept = [decided(rule, text) for rule in (quality, repetition, fineweb, c4)]
            changed = kept[3][2] if kept[0][0] and kept[1][0] else None
            kept.append(None if changed is None else decided(fineweb, changed))
            file.write(json.dumps([number, kept]) + "\n")


def filters() -> list:
    return [
        GopherQualityFilter(),
        GopherRepetitionFilter(),
        C4QualityFilter(),
        FineWebQualityFilter(),
    ]


def decided(rule, text: str) -> tuple:
    """(kept, why not, the text if it is another one)."""
    document = Document(text=text, id="")
    kept, why = get_filter_result(rule.filter(document))
    return bool(kept), why, document.text if kept and document.text != text else None


def pipeline(lines: Iterable[bytes]) -> dict:
    """Seconds of the four filters one after the other, as its pipelines run them."""
    texts = [json.loads(line)["text"] for line in lines]
    documents: Iterator = iter([Document(text=text, id="") for text in texts])
    rules = filters()
    for rule in rules:
        rule.filter(Document(text="The first text loads what is needed.", id=""))
    for rule in rules:
        documents = rule.run(documents)
    started, began = time.perf_counter(), time.process_time()
    kept = sum(1 for _ in documents)
    return {
        "kept": kept,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - began,
    }


if __name__ == "__main__":
    main()
