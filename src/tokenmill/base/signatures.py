"""Keyword arguments that are declared once and shown everywhere: fields of `Settings`, say.

`help()`, completion and `inspect.signature` list every keyword with its default. Type checkers see
the same names through `Unpack` of a TypedDict.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from tokenmill.base.suggest import did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_keywords_of(
    source: Callable[..., Any], *, but: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Show the keywords of `source` (a function or a class) instead of `**keywords`.

    `but` names those of `source` that the function gives by itself. A function with `*arguments`
    takes those of `source` by their places, too.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        params = {n: p for n, p in own.parameters.items() if p.kind not in variable}
        by_place = any(p.kind is p.VAR_POSITIONAL for p in own.parameters.values())
        for name, parameter in inspect.signature(source).parameters.items():
            if name not in params and name not in but:
                kind = parameter.kind if by_place else parameter.KEYWORD_ONLY
                params[name] = parameter.replace(kind=kind)

        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in params:
                    called = function.__qualname__.removesuffix(".__init__")
                    suggestion = _field_of(name, params) or did_you_mean(name, params)
                    raise TypeError(f"{called}() has no argument {name!r}{suggestion}")
            return function(*args, **keywords)

        # Set on the wrapper: `inspect.signature` believes it, also through a class.
        checked.__signature__ = own.replace(parameters=list(params.values()))  # type: ignore[attr-defined]
        return cast(Function, checked)

    return decorate


def _field_of(name: str, params: Mapping[str, inspect.Parameter]) -> str:
    """Say how to give `name` if it is a field of an object that is taken; else return nothing."""
    for parameter in params.values():
        if name in getattr(parameter.default, "__dataclass_fields__", ()):
            kind = type(parameter.default).__name__
            return f"; give it as {parameter.name}={kind}({name}=...)"
    return ""


def refuse_fields(called: str, options: object, *names: str) -> None:
    """Refuse fields of `options` that were set, but mean nothing to the function `called`."""
    usual = type(options)()
    for name in names:
        if getattr(options, name) != getattr(usual, name):
            kind = type(options).__name__
            raise ValueError(f"{called}() does not use {name} of {kind}; leave it out")


def options_of(annotation: Any) -> list[Any]:
    """Return the values and types that an annotation allows.

    >>> options_of(Literal["a", "b"] | None)
    ['a', 'b', <class 'NoneType'>]
    """
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [each for part in get_args(annotation) for each in options_of(part)] or [annotation]


def check_type(name: str, value: object, annotation: Any) -> None:
    """Raise a ValueError unless a setting has a value that its annotation allows."""
    options = options_of(annotation)
    is_whole_float = type(value) is int and float in options
    if not (value in options or type(value) in options or is_whole_float):
        names = (getattr(option, "__name__", option) for option in options)
        expected = " or ".join(str(option).removesuffix("Type") for option in names)
        raise ValueError(f"{name} is {value!r}; expected {expected}")
