"""A small corpus of several kinds of files, with repeated lines, and what a dataset comes to."""

import gzip
import json
import random
from pathlib import Path


def write_corpus(folder: Path, seed: int = 1, documents: int = 300) -> list[Path]:
    """A .jsonl, a .txt and a .jsonl.gz file."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 8))) for _ in range(400)]

    def text():
        lines = [" ".join(chance.choices(words, k=9)) for _ in range(chance.randint(1, 12))]
        return "\n".join([*lines, "this line stands in every one of the documents"])

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("a.jsonl", "b.txt", "sub/c.jsonl.gz")]
    paths[2].parent.mkdir()
    paths[0].write_text("".join(json.dumps({"text": text()}) + "\n" for _ in range(documents)))
    paths[1].write_text("".join(text() + "\n" for _ in range(documents)))
    rows = "".join(json.dumps({"text": text()}) + "\n" for _ in range(documents // 3))
    paths[2].write_bytes(gzip.compress(rows.encode(), mtime=0))
    return paths


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
