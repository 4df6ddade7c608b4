"""How every loader is timed: batches a second after a warm-up, printed as one JSON line.

Imported by the scripts of the peers in their own environments: standard library only.
"""

import itertools
import json
import time
from collections.abc import Iterator


def report(
    batches: Iterator[object], tokens_per_batch: int, seconds: float, **more: object
) -> None:
    """Take batches for some seconds, and say how many tokens a second that was.

    The best of five equal stretches counts: other work on the machine only ever slows one down.
    """
    for _ in itertools.islice(batches, 5):
        pass
    best, stretch = 0.0, seconds / 5
    for _ in range(5):
        count, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < stretch:
            next(batches)
            count += 1
        best = max(best, count / passed)
    print(json.dumps({"tokens_per_s": best * tokens_per_batch, **more}))


def endless(make: object) -> Iterator[object]:
    """Start over whenever an epoch ends."""
    while True:
        yield from make()  # type: ignore[operator]
