"""The settings of a loader, as fields of a form and of an address."""

from dataclasses import asdict, dataclass
from typing import Any

from tokenmill.batches.loader import BatchLoader
from tokenmill.dataset import TokenDataset
from tokenmill.pages.elements.html import Html, tag
from tokenmill.pages.site.query import Query

ORDERS = ("shuffle", "sequential", "blocks", "random")
MAX_BATCH_TOKENS = 4 << 20
MAX_STEP = 10**12


@dataclass(frozen=True)
class OrderSettings:
    """What the batch of a step depends on, besides the step."""

    batch_size: int = 8
    block_size: int = 1024
    seed: int = 0
    order: str = "shuffle"
    rank: int = 0
    world_size: int = 1
    phase: bool = False

    @classmethod
    def read(cls, query: Query) -> "OrderSettings":
        """From an address."""
        usual = cls()
        settings = cls(
            batch_size=query.number("batch_size", usual.batch_size, least=1, most=1 << 16),
            block_size=query.number("block_size", usual.block_size, least=1, most=1 << 21),
            seed=query.number("seed", usual.seed),
            order=query.text("order", usual.order),
            rank=query.number("rank", usual.rank, most=1 << 20),
            world_size=query.number("world_size", usual.world_size, least=1, most=1 << 20),
            phase=query.text("phase") == "1",
        )
        if settings.order not in ORDERS:
            raise ValueError(f"order is {settings.order!r}; it must be one of {', '.join(ORDERS)}")
        if settings.batch_size * settings.block_size > MAX_BATCH_TOKENS:
            raise ValueError(
                f"a batch of {settings.batch_size:,} rows of {settings.block_size:,} tokens is "
                f"more than this page reads: {MAX_BATCH_TOKENS:,} tokens"
            )
        return settings

    def query(self) -> dict[str, Any]:
        """The fields that are not the usual ones, for an address."""
        usual = asdict(OrderSettings())
        given = {k: v for k, v in asdict(self).items() if v != usual[k]}
        return given | ({"phase": 1} if self.phase else {})

    def loader(self, data: TokenDataset) -> BatchLoader:
        """A loader that reads only what it is asked for."""
        return BatchLoader(data, prefetch=0, documents=data.knows_documents, **asdict(self))

    def fields(self) -> list[Html]:
        """Inputs for a form."""
        options = (tag("option", name, selected=name == self.order) for name in ORDERS)
        return [
            number_field("rank", self.rank),
            number_field("world_size", self.world_size),
            number_field("batch_size", self.batch_size),
            number_field("block_size", self.block_size),
            number_field("seed", self.seed),
            tag("label", tag("span", "order"), tag("select", *options, name="order")),
            tag(
                "label",
                tag("span", "phase"),
                tag("input", type="checkbox", name="phase", value="1", checked=self.phase),
            ),
        ]


def number_field(name: str, value: int | None, **attributes: Any) -> Html:
    """A labelled field for a whole number."""
    entry = tag(
        "input",
        name=name,
        value="" if value is None else value,
        inputmode="numeric",
        size=8,
        autocomplete="off",
        **attributes,
    )
    return tag("label", tag("span", name.replace("_", " ")), entry)
