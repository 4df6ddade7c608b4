"""Errors in the words of the class that was called: `max_length` where others say `block_size`."""

import functools
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tokenmill.errors import TokenmillError

Function = TypeVar("Function", bound=Callable[..., Any])
_OPEN = re.compile(r'tokenmill\.open\("([^"]*)"')


def in_own_words(**names: str) -> Callable[[Function], Function]:
    """Let hints name the function, not `tokenmill.open`; `names` are its words for arguments."""

    def decorate(function: Function) -> Function:
        own = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def called(*args: Any, **keywords: Any) -> Any:
            values = (*args, *keywords.values())
            given = tuple(os.fspath(v) for v in values if isinstance(v, str | os.PathLike) and v)

            def call(match: re.Match[str]) -> str:  # in what was given, or elsewhere
                return f"{own}(..." if match[1].startswith(given) else f'{own}("{match[1]}"'

            def written(text: str) -> str:
                for name, word in names.items():
                    text = re.sub(rf"\b{name}\b", word, text)
                return _OPEN.sub(call, text)

            try:
                return function(*args, **keywords)
            except TokenmillError as error:
                error.message = written(error.message)
                error.hint = error.hint and written(error.hint)
                raise
            except ValueError as error:
                error.args = (written(str(error)),)
                raise

        return cast(Function, called)

    return decorate
