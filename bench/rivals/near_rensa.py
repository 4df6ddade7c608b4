"""rensa as its users call it: runs of words made in Python, 128 permutations, an index of bands.

What is measured is from text to decision: runs, sketches, the index, and who stays. It decides by
its estimate of the similarity.
"""

import json
import re
import sys
import time

from rensa import RMinHash, RMinHashLSH

PERMUTATIONS = 128
BANDS = 16
WIDTH = 5


def runs_of(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    width = min(WIDTH, len(words))
    return [" ".join(words[at : at + width]) for at in range(len(words) - width + 1)]


def main() -> None:
    path, threshold = sys.argv[1], float(sys.argv[2])
    with open(path) as file:
        texts = [json.loads(line)["text"] for line in file]
    began = time.process_time()
    index = RMinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, num_bands=BANDS)
    sketches = []
    gone = set()
    for number, text in enumerate(texts):
        sketch = RMinHash(num_perm=PERMUTATIONS, seed=1)
        sketch.update(runs_of(text))
        sketches.append(sketch)
        for other in index.query(sketch):
            if other not in gone and sketches[other].jaccard(sketch) >= threshold:
                gone.add(number)
                break
        index.insert(number, sketch)
    print(json.dumps({"cpu_seconds": time.process_time() - began, "removed": len(gone)}))


if __name__ == "__main__":
    main()
