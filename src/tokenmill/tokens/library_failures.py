"""What a library raises is one of our errors: they fail in ways of their own on damaged files.

`tokenizers` raises bare Exceptions. gigatoken, tiktoken and `tokenizers` are written in Rust: a bug
there is a `PanicException`, which is no Exception, so that `except Exception` does not see it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tokenmill.base.human import one_line
from tokenmill.errors import FormatError, TokenmillError


@contextmanager
def failures_of(
    library: str, doing: str, *, kind: type[TokenmillError] = FormatError
) -> Iterator[None]:
    """An error of ours for whatever `library` raises; `doing` says what it was asked: `read x`."""
    try:
        yield
    except (TokenmillError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # Ctrl-C, an exit
        reason = one_line(str(error).strip().partition("\n")[0])[:300] or type(error).__name__
        raise kind(f"{library} cannot {doing}: {reason}") from None
