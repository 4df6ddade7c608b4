"""Several datasets served as one stream, by weight.

Weights count samples (windows), all equally long; order/mixture_order.py says how closely they
hold. Every source runs through its own epochs. The times of a schedule, [(step, weights), ...], are
in steps of `samples_per_step` samples, by default 1. They are fixed there and not by the loader, so
that a run resumed on other ranks keeps them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenmill.base.signatures import checks_arguments
from tokenmill.base.suggest import check_at_least_one, one_of
from tokenmill.batches.run import fingerprint_of
from tokenmill.dataset import TokenDataset
from tokenmill.order.mixture_order import MixtureStage, whole_parts

Weights = Mapping[str, Any]


class Mixture:
    """Named datasets and how much of each a run gets; pass it to a BatchLoader as its data."""

    @checks_arguments
    def __init__(
        self,
        sources: Mapping[str, TokenDataset],
        *,
        weights: Weights | None = None,
        schedule: Sequence[tuple[int, Weights]] | None = None,
        samples_per_step: int = 1,
    ) -> None:
        if not sources:
            raise ValueError("a mixture needs at least one dataset, and {} has none")
        if (weights is None) == (schedule is None):
            raise ValueError("give either weights= or schedule=, one of them")
        check_at_least_one(samples_per_step=samples_per_step)
        self.names = tuple(sources)
        self.datasets = tuple(sources.values())
        refuse_different_tokenizers(self.names, self.datasets)
        times = [(0, weights)] if schedule is None else list(schedule)
        starts = [at for at, _ in times]
        if not starts or starts[0] != 0 or sorted(set(starts)) != starts:
            raise ValueError(f"stages start at {starts}; they must start at 0 and rise")
        self.stages = tuple(
            MixtureStage(at * samples_per_step, parts_of(given or {}, self.names))
            for at, given in times
        )

    def __repr__(self) -> str:
        parts = self.stages[0].parts
        shares = (
            f"{n} {100 * part / sum(parts):.4g} %"
            for n, part in zip(self.names, parts, strict=True)
        )
        more = f", {len(self.stages)} stages" if len(self.stages) > 1 else ""
        tokens = sum(data.num_tokens for data in self.datasets)
        return f"<Mixture of {tokens:,} tokens: {', '.join(shares)}{more}>"

    @property
    def fingerprint(self) -> str:
        """A hash of the names of the sources and of their data."""
        return fingerprint_of(self.names, self.datasets)


def parts_of(weights: Weights, names: Sequence[str]) -> tuple[int, ...]:
    """The weights as whole parts in the order of the sources, all of which must have one."""
    for name in weights:
        one_of("a source with a weight", name, names)
    for name in names:
        if name not in weights:
            raise ValueError(f"no weight is given for {name!r}; give it 0 if none of it is wanted")
    return whole_parts([weights[name] for name in names])


def refuse_different_tokenizers(names: Sequence[str], datasets: Sequence[TokenDataset]) -> None:
    """Refuse to mix data in which the same id means different text."""
    made_with = [data.tokenizer_fingerprint for data in datasets]
    known = [(n, f) for n, f in zip(names, made_with, strict=True) if f is not None]
    if len({fingerprint for _, fingerprint in known}) > 1:
        listed = ", ".join(f"{name} {fingerprint[:12]}" for name, fingerprint in known)
        raise ValueError(
            f"the sources were made with different tokenizers (fingerprints: {listed}): the "
            f"same id means different text in each; prepare them with one tokenizer"
        )
