"""When a run trains on a document: the steps, and the checkpoints that had trained on it.

Nothing was counted while it trained. The order says in which samples a document is a target, and a
checkpoint how many samples came before it; so both are exact, across all edits.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmill.base.human import one_line, plural
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.lookup import Visit, one_line_of
from tokenmill.dataset import TokenDataset
from tokenmill.look.find_text import find
from tokenmill.look.show import document_range


@dataclass(frozen=True)
class TrainedOn:
    """When a run trains on one document."""

    source: str
    document: int
    tokens: int
    visits: list[Visit]
    """The rows that trained on it, up to the present step of the loader."""
    to_come: list[Visit]
    """Rows of the rest of the present epoch, as far as the run goes."""
    checkpoints: dict[str, bool]
    """True for each that had trained on it."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts of the document, where the data keeps them."""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenmill when --json`."""
        visits = {"visits": self.visits, "to_come": self.to_come}
        known = asdict(self) | {k: [visit._asdict() for visit in v] for k, v in visits.items()}
        return known if self.facts else {k: v for k, v in known.items() if k != "facts"}

    def lines(self) -> Iterator[str]:
        """In words."""
        size = plural(self.tokens, "token")
        yield f"document {self.document:,} of {self.source} ({size})"
        if self.facts:
            yield one_line(f"  {one_line_of(self.facts)}")
        for visit in self.visits:
            yield f"  trained on in step {visit.step:,} (epoch {visit.epoch}, row {visit.row})"
        if not self.visits:
            yield "  not trained on up to the last checkpoint"
        if self.to_come:
            yield f"  to come in step {', '.join(f'{visit.step:,}' for visit in self.to_come)}"
        for had, words in ((True, "had"), (False, "had not")):
            names = [name for name, trained in self.checkpoints.items() if trained is had]
            if names:
                yield f"  checkpoints that {words} trained on it: {', '.join(names)}"


def trained_on(
    loader: BatchLoader,
    document: int,
    *,
    source: str,
    checkpoints: Mapping[str, int],
    left_out: Collection[int],
    end: int,
) -> TrainedOn:
    """Return when a run, of which this is the loader, trains on a document of a source.

    `checkpoints` are the steps of the data before each. Those in `left_out` are not trained on, nor
    those from `end` on.
    """
    data = loader.datasets[loader.names.index(source)]
    start, stop = document_range(data, document)
    found = [v for v in loader.when(document, source=source) if v.step not in left_out]
    visits = [visit for visit in found if visit.step < loader.step]
    first = min((visit.step for visit in visits), default=None)
    return TrainedOn(
        source,
        document,
        stop - start,
        visits,
        [visit for visit in found if loader.step <= visit.step < end],
        {name: first is not None and first < steps for name, steps in checkpoints.items()},
        data.facts_of(document),
    )


def documents_with(data: TokenDataset, text: str) -> list[int]:
    """Return the documents that contain a text, ascending."""
    return list(dict.fromkeys(data.document_at(match.start) for match in find(data, text)))
