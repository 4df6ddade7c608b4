"""What a part of the runs did, in counts, and what failed."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Cases by what was done to what, and how each ended."""

    seed: int
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """`{"prepare": {"killed": 200, "resumed": 150}}`."""
    failures: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """What could not be tried here, and why."""
    started: float = field(default_factory=time.monotonic)

    def add(self, what: str, ended: str, number: int = 1) -> None:
        self.counts.setdefault(what, Counter())[ended] += number

    def fail(self, what: str, why: str) -> None:
        self.add(what, "failed")
        self.failures.append(f"{what}: {why}")

    def skip(self, what: str, why: str) -> None:
        """Note that something is not tried; a part that tries nothing at all has failed."""
        self.skipped[what] = why

    def total(self, ended: str) -> int:
        """Cases of all kinds that ended so."""
        return sum(counter[ended] for counter in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """As it is kept in bench/results/faults.json."""
        totals = sum(self.counts.values(), Counter())
        return {
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.started),
            "totals": dict(sorted(totals.items())),
            "counts": {name: dict(sorted(these.items())) for name, these in self.counts.items()},
            "failures": self.failures,
            "skipped": self.skipped,
        }
