"""Mistyped names: errors that list the known ones, and suggest the closest."""

from collections.abc import Iterable


def one_of(name: str, value: object, known: Iterable[object]) -> None:
    """Raise a ValueError that lists the known values unless `value` is one of them."""
    if value not in (known := tuple(known)):
        names = list(map(str, known))
        hint = did_you_mean(str(value), names, AS_HINT)
        raise ValueError(f"{name} is {value!r}; known are: {', '.join(names)}{hint}")


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
