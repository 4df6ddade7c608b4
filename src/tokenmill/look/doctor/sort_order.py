"""never-shuffled: documents that lie sorted by source, language, date or length.

Cheap features of documents spread over the split are compared with those of the next one. In
shuffled data neighbours are strangers and the correlation is 0, give or take 1/sqrt(n); documents
that lie in groups are like their neighbours. It is a note, not a fault: tokenmill shuffles windows
over the whole split. Programs that read shards from front to back do not; so nothing is said of
datasets of our own, whose documents lie in the order of the files they came from.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient

NUM_DOCUMENTS = 800
LEAST_DOCUMENTS = 64
TOKENS = 256  # of each document
ALIKE = 0.35  # correlation
SIGMAS = 5  # chance gives 1 / sqrt(n), and rarely 5 times that


def check(patient: Patient) -> Iterator[Finding]:
    """Correlation of each feature between neighbours in the sample."""
    data = patient.data
    if data.format == "tokenmill" or data.details.get("rows"):
        return
    rows: list[list[float]] = []
    for start, stop in patient.documents(NUM_DOCUMENTS):
        ids = data.tokens(start, min(stop, start + TOKENS)).astype(np.int64)
        features = (np.log2(stop - start), np.log2(ids + 1).mean(), (ids < 512).mean())
        rows.append([float(feature) for feature in features])
    if len(rows) < LEAST_DOCUMENTS:
        return
    table = np.array(rows)
    names = ("length", "mean id", "share of common ids")
    found = {name: _correlation(table[:, i]) for i, name in enumerate(names)}
    name, value = max(found.items(), key=lambda item: item[1])
    if value > max(ALIKE, SIGMAS / len(rows) ** 0.5):
        yield Finding(
            "never-shuffled",
            patient.split,
            f"documents are like their neighbours: correlation {value:.2f} of their {name}, over "
            f"{len(rows):,} documents spread over the split (0 in shuffled data)",
            "nothing to do for tokenmill's shuffled order; for programs that read from front to "
            "back, shuffle the documents before writing",
            is_fault=False,
        )


def _correlation(values: np.ndarray) -> float:
    """Between each value and the next; by rank, so that one long document does not decide."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    if np.ptp(values) == 0:
        return 0.0
    return float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])
