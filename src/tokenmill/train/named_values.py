"""Names with values as one text: web=0.7,code=0.3."""

from typing import Any


def pair_of(text: str, flag: str, example: str) -> tuple[str, str]:
    """Return crawl=data/crawl as two texts."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ValueError(f"{flag} is {text!r}; expected a name and a value: {example}")
    return name, value


def pairs_of(text: str, flag: str, example: str) -> dict[str, str]:
    """Return web=data/web,code=data/code as a dict."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, value = pair_of(part, flag, example)
        if name in pairs:
            raise ValueError(f"{flag} has {name!r} twice")
        pairs[name] = value
    return pairs


def numbers_of(text: str, flag: str, kind: type[int] | type[float] = float) -> dict[str, Any]:
    """Return web=0.7,code=0.3 as a dict; whole numbers stay whole."""
    numbers: dict[str, Any] = {}
    example = "web=0.7,code=0.3" if kind is float else "wiki=4"
    for name, value in pairs_of(text, flag, example).items():
        try:
            numbers[name] = int(value) if kind is int or value.isdecimal() else float(value)
        except ValueError:
            raise ValueError(f"{flag} has '{name}={value}'; {value!r} is not a number") from None
    return numbers
