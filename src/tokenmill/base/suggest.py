"""Did you mean: the known name that is closest to a mistyped one."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, if one does."""
    import difflib  # only after a mistake: it costs 3 ms to import

    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def did_you_mean(name: str, known: Iterable[str], before: str = "; ") -> str:
    """The end of an error message.

    >>> "unknown flag 'sead'" + did_you_mean("sead", ["seed", "dtype"])
    "unknown flag 'sead'; did you mean 'seed'?"
    """
    close = closest(name, known)
    return f"{before}did you mean {close!r}?" if close else ""


AS_HINT = "\n\nhint: "
"""For `before`: the question as the hint of an error."""
