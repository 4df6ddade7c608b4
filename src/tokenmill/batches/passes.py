"""The passes of a loader: a pass ends when a source has had its epochs, or never.

A single dataset has `epochs=n`, a mixture `epochs={"wiki": n}`: whichever of the named sources is
first ends the pass. Pass k ends when it has had (k + 1) * n epochs. An order that edits have ended
ends all passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenmill.batches.run import Run, number_of
from tokenmill.order.order import Order
from tokenmill.order.windows import check_at_least_one


@dataclass(frozen=True, eq=False)
class Passes:
    """Passes of some epochs through an order."""

    order: Order
    limits: Mapping[int, int]
    """The epochs of a pass, by the number of the source; empty for one endless pass."""
    is_mixture: bool
    _stops: dict[int, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, epochs: int | Mapping[str, int] | None, run: Run) -> "Passes":
        """The passes that the argument `epochs` of a loader asks for."""
        is_mixture = run.stages is not None
        if epochs is None:
            return cls(run.order, {}, is_mixture)
        if isinstance(epochs, Mapping):
            limits = {number_of(name, run.names): number for name, number in epochs.items()}
            check_at_least_one(**{f"epochs of {name!r}": n for name, n in epochs.items()})
            passes = cls(run.order, limits, is_mixture)
            if passes.stop_of(0) is None:
                named = ", ".join(map(repr, epochs))
                raise ValueError(f"epochs are given for {named}, of which no sample ever comes")
            return passes
        if is_mixture or epochs < 1:
            wrong = (
                "a mixture has no epochs of its own, name one of its sources: "
                f"epochs={{{run.names[0]!r}: {epochs}}}"
                if is_mixture
                else "it must be at least 1, or None for an endless loader"
            )
            raise ValueError(f"epochs is {epochs}; {wrong}")
        return cls(run.order, {0: epochs}, is_mixture)

    def start_of(self, number: int) -> int:
        """The first sample of a pass."""
        return 0 if number == 0 or not self.limits else self.stop_of(number - 1) or 0

    def stop_of(self, number: int) -> int | None:
        """The sample after the last one of a pass; None if it never ends."""
        if number not in self._stops:
            ends = [
                self.order.samples_in_epochs(source, (number + 1) * epochs)
                for source, epochs in self.limits.items()
            ]
            stops = [end for end in [*ends, self.order.num_samples] if end is not None]
            self._stops[number] = min(stops, default=None)
        return self._stops[number]

    def pass_of(self, samples: int, number: int) -> int:
        """The pass of a saved state: the one it says, unless that had other `epochs`."""
        if not self.limits:
            return number
        stop = self.stop_of(number)
        if self.start_of(number) <= samples and (stop is None or samples <= stop):
            return number
        had = self.order.epochs_before(samples)
        return max(had[source] // epochs for source, epochs in self.limits.items())

    def epochs_of(self, source: int, number: int, present: int) -> range:
        """The epochs of a source in a pass; of an endless one, all up to the present one."""
        if (epochs := self.limits.get(source)) is None:
            return range(present + 1)
        return range(number * epochs, (number + 1) * epochs)

    def length_of_first(self) -> int:
        """Samples of the first pass; of one endless dataset, those of an epoch."""
        length = self.stop_of(0)
        if length is None and not self.is_mixture:
            length = self.order.samples_in_epochs(0, 1)
        if length is None:
            raise ValueError("a mixture has no end; say how many windows: windows(100_000)")
        return length
