"""A tiny linear classifier: keep what looks more like good text than like bad text.

    python examples/map_quality.py good.txt bad.txt          # a document per line; writes WEIGHTS
    tokenmill prepare ... --map map_quality:good             # in the folder of this file

Words are hashed into buckets, a weight is the log of how much more often a bucket is in good text,
and the score of a document is the mean weight of its words. The weights are a part of the function:
the name of their file has their hash, so other weights make another dataset.
"""

import functools
import hashlib
import sys
import zlib
from pathlib import Path

import numpy as np

from tokenmill.text.filters.mapped import Documents, Mapped

WEIGHTS = "quality-NONE.npy"
"""The file that training writes; put its name here."""
BUCKETS = 1 << 16


def buckets_of(text: str) -> np.ndarray:
    """The bucket of each word."""
    words = text.lower().encode().split()
    return np.fromiter((zlib.crc32(word) % BUCKETS for word in words), np.int64, len(words))


def train(good: list[str], bad: list[str]) -> np.ndarray:
    """The weight of each bucket; buckets that are in neither weigh nothing."""
    counts = [np.bincount(buckets_of(" ".join(texts)), minlength=BUCKETS) for texts in (good, bad)]
    shares = [(count + 1) / (count.sum() + BUCKETS) for count in counts]
    weights: np.ndarray = np.log(shares[0] / shares[1]).astype(np.float32)
    weights[(counts[0] == 0) & (counts[1] == 0)] = 0
    return weights


def save(weights: np.ndarray, folder: Path) -> Path:
    """Write the weights into a file that is named by them."""
    path = folder / f"quality-{hashlib.sha256(weights.tobytes()).hexdigest()[:16]}.npy"
    np.save(path, weights)
    return path


@functools.cache
def weights() -> np.ndarray:
    """The weights next to this file, which must be those that its name says."""
    found: np.ndarray = np.load(Path(__file__).parent / WEIGHTS)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] in WEIGHTS, f"{WEIGHTS} was changed"
    return found


def good(documents: Documents) -> Mapped:
    """Drop documents with a score below 0."""
    scores = []
    for text in documents.texts:
        buckets = buckets_of(text)
        scores.append(float(weights()[buckets].mean()) if len(buckets) else 0.0)
    pairs = zip(documents.texts, scores, strict=True)
    texts = [text if score >= 0 else None for text, score in pairs]
    reasons = [None if text is not None else "low score" for text in texts]
    return Mapped(texts, reasons, scores)


if __name__ == "__main__":
    one, other = (Path(path).read_text().splitlines() for path in sys.argv[1:3])
    print(save(train(one, other), Path(__file__).parent))
