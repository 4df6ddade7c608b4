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

CHOICES = {
    "order": ("shuffle", "sequential", "blocks", "random"),
    "rows": ("windows", "packed", "documents"),
}
# The smallest and the largest value of each number, in the order of the form.
BOUNDS = {
    "rank": (0, 1 << 20),
    "world_size": (1, 1 << 20),
    "batch_size": (1, 1 << 16),
    "block_size": (1, 1 << 21),
    "seed": (0, 1 << 62),
    "begin_token": (0, 1 << 62),
}
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

    def number(self, name: str, least: int = 0, most: int = 1 << 62) -> int | None:
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
    """The settings that the batch of a step depends on."""

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
        """Read the settings from an address; the usual value where one is not given."""
        numbers: dict[str, Any] = {n: query.number(n, *bounds) for n, bounds in BOUNDS.items()}
        names = {name: query.text(name) or None for name in CHOICES}
        given = {name: value for name, value in (numbers | names).items() if value is not None}
        for name in names.keys() & given.keys():
            one_of(name, given[name], CHOICES[name])
        settings = cls(**given, phase=query.text("phase") == "1")
        if (size := settings.batch_size * settings.block_size) > MAX_BATCH_TOKENS:
            most = f"this page reads at most {MAX_BATCH_TOKENS:,}"
            raise ValueError(f"batch_size times block_size is {size:,} tokens; {most}")
        return settings

    def query(self) -> dict[str, Any]:
        """The fields that are not the usual ones, for an address."""
        usual = asdict(OrderSettings())
        given = {k: v for k, v in asdict(self).items() if v != usual[k]}
        return given | ({"phase": 1} if self.phase else {})

    def loader(self, data: TokenDataset) -> BatchLoader:
        """A loader that reads only what it is asked for, and shows ids that are wrong."""
        form = BatchForm(prefetch=0, check_ids=False)
        return BatchLoader(data, documents=data.knows_documents, form=form, **asdict(self))

    def fields(self) -> list[Html]:
        """The entries of a form, with these values."""
        numbers = [number_field(name, getattr(self, name)) for name in BOUNDS]
        selects = []
        for name, choices in CHOICES.items():
            options = (tag("option", c, selected=c == getattr(self, name)) for c in choices)
            selects.append(tag("label", tag("span", name), tag("select", *options, name=name)))
        phase = tag("input", type="checkbox", name="phase", value="1", checked=self.phase)
        return [*numbers, *selects, tag("label", tag("span", "phase"), phase)]


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
