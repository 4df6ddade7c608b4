"""The fields of an address, checked, and the forms that fill them in."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from tokenmill.base.markup import Html, tag
from tokenmill.base.suggest import one_of
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.dataset import TokenDataset

ROWS = ("windows", "packed", "documents")
ORDERS = ("shuffle", "sequential", "blocks", "random")
MAX_BATCH_TOKENS = 4 << 20
MAX_STEP = 10**12
MAX_TEXT = 1000
MAX_FIELDS = 32


class Query:
    """The fields after the `?`; one that is empty was not given."""

    def __init__(self, encoded: str) -> None:
        try:
            fields = parse_qs(encoded, max_num_fields=MAX_FIELDS, errors="replace")
        except ValueError:
            raise ValueError(f"the address has more than {MAX_FIELDS} fields") from None
        self._fields = {name: values[-1] for name, values in fields.items()}

    def text(self, name: str, default: str = "") -> str:
        value = self._fields.get(name, default)
        if len(value) > MAX_TEXT:
            raise ValueError(f"{name} has {len(value):,} characters; at most {MAX_TEXT:,} are read")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """A whole number within these bounds."""
        value = self.optional(name, least=least, most=most)
        return default if value is None else value

    def optional(self, name: str, *, least: int = 0, most: int = 1 << 62) -> int | None:
        """A whole number within these bounds, or None where it is not given."""
        given = self.text(name).replace(",", "").replace("_", "").strip()
        if not given:
            return None
        digits = given.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise ValueError(f"{name} is {given!r}; it must be a whole number")
        if not least <= int(given) <= most:
            raise ValueError(f"{name} is {int(given):,}; it must be {least:,} to {most:,}")
        return int(given)


Fields = Mapping[str, object]


def address(page: str, *parts: Fields) -> str:
    """A relative address; what is None is left out."""
    fields = {k: v for part in parts for k, v in part.items() if v is not None}
    return f"{page}?{urlencode(fields)}" if fields else page


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
    rows: str = "windows"
    begin_token: int | None = None

    @classmethod
    def read(cls, query: Query) -> "OrderSettings":
        usual = cls()
        settings = cls(
            batch_size=query.number("batch_size", usual.batch_size, least=1, most=1 << 16),
            block_size=query.number("block_size", usual.block_size, least=1, most=1 << 21),
            seed=query.number("seed", usual.seed),
            order=query.text("order", usual.order),
            rank=query.number("rank", usual.rank, most=1 << 20),
            world_size=query.number("world_size", usual.world_size, least=1, most=1 << 20),
            phase=query.text("phase") == "1",
            rows=query.text("rows", usual.rows),
            begin_token=query.optional("begin_token"),
        )
        one_of("order", settings.order, ORDERS)
        one_of("rows", settings.rows, ROWS)
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
        """A loader that reads only what it is asked for, and shows ids that are wrong."""
        documents = data.knows_documents
        return BatchLoader(
            data, documents=documents, form=BatchForm(prefetch=0, check_ids=False), **asdict(self)
        )

    def fields(self) -> list[Html]:
        options = (tag("option", name, selected=name == self.order) for name in ORDERS)
        kinds = (tag("option", name, selected=name == self.rows) for name in ROWS)
        return [
            number_field("rank", self.rank),
            number_field("world_size", self.world_size),
            number_field("batch_size", self.batch_size),
            number_field("block_size", self.block_size),
            number_field("seed", self.seed),
            tag("label", tag("span", "order"), tag("select", *options, name="order")),
            tag("label", tag("span", "rows"), tag("select", *kinds, name="rows")),
            number_field("begin_token", self.begin_token),
            tag(
                "label",
                tag("span", "phase"),
                tag("input", type="checkbox", name="phase", value="1", checked=self.phase),
            ),
        ]


def form(action: str, split: str, *fields: object, **attributes: Any) -> Html:
    """A form for a page of this split."""
    hidden = tag("input", type="hidden", name="split", value=split)
    return tag("form", *fields, hidden, action=action, **attributes)


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
