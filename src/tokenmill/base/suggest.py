"""Checks of arguments; for a mistyped name an error that lists the known, or the closest one."""

from collections.abc import Iterable


def one_of(name: str, value: object, known: Iterable[object]) -> None:
    """Raise a ValueError that lists the known values unless `value` is one of them."""
    if value not in (known := tuple(known)):
        names = list(map(str, known))
        hint = did_you_mean(str(value), names, AS_HINT)
        raise ValueError(f"{name} is {value!r}; known are: {', '.join(names)}{hint}")


def check_at_least_one(**counts: int) -> None:
    """Refuse a count below 1, by its name."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count}; it must be at least 1")


def check_below(name: str, value: int, stop: int) -> None:
    """Refuse a number that is not one of 0 .. stop-1."""
    if not 0 <= value < stop:
        raise IndexError(f"{name} is {value}; it must be 0 to {stop - 1}")


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like this one, if one does."""
    import difflib  # only after a mistake: it costs 3 ms to import

    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def did_you_mean(name: str, known: Iterable[str], before: str = "; ") -> str:
    """Return the end of an error message.

    >>> "unknown flag 'sead'" + did_you_mean("sead", ["seed", "dtype"])
    "unknown flag 'sead'; did you mean 'seed'?"
    """
    close = closest(name, known)
    return f"{before}did you mean {close!r}?" if close else ""


AS_HINT = "\n\nhint: "
"""For `before`: the question as the hint of an error."""
