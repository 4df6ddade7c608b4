"""The documents that every file of tests/data holds: ids of gpt2, each ended by 50256."""

import json
import random
from pathlib import Path

DATA = Path(__file__).parent.parent
PATH = DATA / "documents.json"


def documents() -> list[list[int]]:
    return json.loads(PATH.read_text())


def fresh(name: str) -> Path:
    """An empty folder of this name in tests/data."""
    folder = DATA / name
    folder.mkdir(exist_ok=True)
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    return folder


if __name__ == "__main__":
    draw = random.Random(20240520)
    lengths = [7, 1, 40, 3, 129, 2, 64, 12, 255, 1, 5, 90, 33, 300, 18]
    made = [[draw.randrange(50256) for _ in range(length)] + [50256] for length in lengths]
    made[3][1] = 0
    made[4][5] = 50255
    PATH.write_text("[\n" + ",\n".join(json.dumps(document) for document in made) + "\n]\n")
