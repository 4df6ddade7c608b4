"""The questions in an address, checked: whole numbers in their range, text of bounded length."""

from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode

MAX_TEXT = 1000
MAX_FIELDS = 32


class Query:
    """What stands behind the `?`; a field that is empty was not given."""

    def __init__(self, encoded: str) -> None:
        try:
            fields = parse_qs(encoded, max_num_fields=MAX_FIELDS, errors="replace")
        except ValueError:
            raise ValueError(f"the address has more than {MAX_FIELDS} fields") from None
        self._fields = {name: values[-1] for name, values in fields.items()}

    def text(self, name: str, default: str = "") -> str:
        """A field as it is."""
        value = self._fields.get(name, default)
        if len(value) > MAX_TEXT:
            raise ValueError(f"{name} has {len(value):,} characters; at most {MAX_TEXT:,} are read")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """A whole number within these bounds."""
        value = self.optional(name, least=least, most=most)
        return default if value is None else value

    def optional(self, name: str, *, least: int = 0, most: int = 1 << 62) -> int | None:
        """The same, or None where it is not given."""
        given = self.text(name).replace(",", "").replace("_", "").strip()
        if not given:
            return None
        digits = given.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise ValueError(f"{name} is {given!r}; it must be a whole number")
        if not least <= int(given) <= most:
            raise ValueError(f"{name} is {int(given):,}; it must be {least:,} to {most:,}")
        return int(given)


def address(page: str, *parts: Mapping[str, object]) -> str:
    """A relative address; what is None is left out."""
    fields = {k: v for part in parts for k, v in part.items() if v is not None}
    return f"{page}?{urlencode(fields)}" if fields else page
