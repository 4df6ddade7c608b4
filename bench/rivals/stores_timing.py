"""How an epoch from a store is timed: one JSON line with rows and seconds.

Imported by the scripts of the peers in their own environments: standard library only.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any


def report(make: Callable[[], Iterable[Any]], seconds: float) -> None:
    """Take all batches, or those of so many seconds; the time counts from the opening on."""
    began, rows, is_whole = time.perf_counter(), 0, True
    for batch in make():
        rows += len(batch)
        if time.perf_counter() - began > seconds:
            is_whole = False
            break
    passed = time.perf_counter() - began
    print(json.dumps({"rows": rows, "seconds": passed, "is_whole": is_whole}), flush=True)
