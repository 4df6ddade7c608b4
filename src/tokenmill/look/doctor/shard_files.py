"""cut-shard and repeated-shard: a file that is shorter than its sisters, or is there twice.

Formats with a header or an index are compared with it when they are opened. This is for the ones
that have none, and for a whole file that was copied, listed or written twice.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import xxhash

from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient

PROBES = 16
PROBE_TOKENS = 256


def check(patient: Patient) -> Iterator[Finding]:
    """Sizes, then samples of each shard."""
    yield from _cut(patient)
    yield from _repeated(patient)


def _cut(patient: Patient) -> Iterator[Finding]:
    files = patient.data.files
    if len(files) < 4 or any(file.partial or file.digest or file.ends for file in files):
        return
    sizes = Counter(file.num_tokens for file in files[:-1])  # the last may be shorter
    usual, count = sizes.most_common(1)[0]
    if count < 3 or count < 0.75 * (len(files) - 1):
        return
    for file in files[:-1]:
        if file.num_tokens < usual:
            yield Finding(
                "cut-shard",
                file.name,
                f"it has {file.num_tokens:,} tokens; {count:,} of the others have {usual:,} each, "
                "and it is not the last",
                "fetch or write this file again",
            )


def _repeated(patient: Patient) -> Iterator[Finding]:
    data = patient.data
    seen: dict[tuple[int, str], int] = {}
    for i in patient.shards():
        file = data.files[i]
        if file.num_tokens < PROBE_TOKENS or not file.path:
            continue
        key = (file.num_tokens, _probe(patient, i))
        if key in seen:
            yield Finding(
                "repeated-shard",
                file.name,
                f"it holds the same {file.num_tokens:,} tokens as {data.files[seen[key]].name}, at "
                f"all of {PROBES} places compared",
                "remove one of the two, or fetch the one that should be there",
            )
        seen.setdefault(key, i)


def _probe(patient: Patient, i: int) -> str:
    data = patient.data
    last = data.files[i].num_tokens - PROBE_TOKENS
    digest = xxhash.xxh3_128()
    part = np.empty(PROBE_TOKENS, data.dtype)
    for start in np.linspace(0, last, PROBES).astype(int).tolist():
        data.read_into(i, start, part)
        digest.update(part.tobytes())
    return digest.hexdigest()
