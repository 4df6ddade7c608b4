"""Documents that are too short or too long, in characters."""

from dataclasses import dataclass

from tokenmill.text.filters.rule import Batch, Rule, Verdict


@dataclass(frozen=True)
class Length(Rule):
    """Keep documents of a size; the blank ones among them count as they are."""

    name = "length"
    reasons = ("too short", "too long")
    min_characters: int = 200
    max_characters: int | None = None

    def apply(self, batch: Batch) -> Verdict:
        sizes = batch.num_characters
        most = sizes.max(initial=0) if self.max_characters is None else self.max_characters
        return Verdict.first_of(
            batch, [(sizes < self.min_characters, sizes), (sizes > most, sizes)]
        )
