"""Arguments of public functions: declared once and shown everywhere, compared with their types.

`help()`, completion and `inspect.signature` list every keyword with its default. Type checkers see
the same names through `Unpack` of a TypedDict. A value that the annotation does not allow is
refused by its name before anything is done: callers without a type checker are told as well.
"""

import functools
import inspect
import numbers
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from tokenmill.base.suggest import did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])
_NAMES = {types.NoneType: "None", os.PathLike: "path", Mapping: "dict", Callable: "function"}
_NAMES |= dict.fromkeys((Collection, Iterable, Sequence), "list")


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

        called = f"{function.__qualname__.removesuffix('.__init__')}()"

        def checked_value(name: str, value: object) -> object:
            if name not in params:
                suggestion = _field_of(name, params) or did_you_mean(name, params)
                raise TypeError(f"{called} has no argument {name!r}{suggestion}")
            options = options_of(params[name].annotation)
            kinds = [type(each) if isinstance(each, str) else each for each in options]
            for form in (value, _plain(value)):
                if any(_allows(kind, form) for kind in kinds):
                    return form
            raise TypeError(f"{called}: {expected(name, value, options)}")

        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            by_name = zip(params, args, strict=False)  # too many are Python's to refuse
            args = (*(checked_value(*pair) for pair in by_name), *args[len(params) :])
            return function(*args, **{n: checked_value(n, value) for n, value in keywords.items()})

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


def checks_arguments(function: Function) -> Function:
    """Refuse unknown keywords, and values that the annotations do not allow, by their names."""
    return takes_keywords_of(function)(function)


def check_fields(settings: Any) -> None:
    """Raise a ValueError unless every field of a dataclass has a value that its type allows."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if not allows(field.type, value):
            raise ValueError(expected(field.name, value, options_of(field.type)))


def expected(name: str, value: object, options: list[Any]) -> str:
    """Return what is wrong with a value that is none of the options."""
    given = repr(value)
    given = given if len(given) <= 80 else f"{given[:77]}..."
    return f"{name} is {given}; expected {' or '.join(map(_named, options))}"


def options_of(annotation: Any) -> list[Any]:
    """Return the values and types that an annotation allows.

    >>> options_of(Literal["a", "b"] | None)
    ['a', 'b', <class 'NoneType'>]
    """
    if isinstance(annotation, str):  # the name of a type that is not imported here
        return [Any]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in options_of(part)]
    return [annotation]


def allows(annotation: Any, value: object) -> bool:
    """Return True unless this is a value of another type; what cannot be compared is allowed.

    >>> [allows(int | None, each) for each in (1, None, True, "1", 1.5, 2**63)]
    [True, True, False, False, False, False]
    >>> [allows(Collection[str], each) for each in (["a"], ("a",), [1], "a")]
    [True, True, False, False]
    """
    return any(_allows(option, value) for option in options_of(annotation))


def _allows(option: Any, value: Any) -> bool:
    if option is int:
        return type(value) is int and abs(value) < 1 << 63
    if option is bool:
        return isinstance(value, int) and value in (0, 1)
    if option is float:
        return type(value) in (int, float)
    if isinstance(option, str):
        return isinstance(value, str) and value == option
    kind = get_origin(option) or option
    if not isinstance(kind, type) or kind.__module__.partition(".")[0] in ("inspect", "numpy"):
        return True  # not annotated, or `ArrayLike`: nearly everything is
    try:
        if not isinstance(value, kind):
            return False
    except TypeError:  # `Any`, or a protocol that says nothing at run time
        return True
    inside = get_args(option)
    if isinstance(value, Mapping) and len(inside) == 2:
        return all(allows(inside[0], k) and allows(inside[1], v) for k, v in value.items())
    if isinstance(value, str | bytes | Mapping):  # a list of characters, or of keys, is not meant
        return not issubclass(kind, Iterable) or issubclass(kind, str | bytes | Mapping)
    if isinstance(value, tuple) and kind is tuple and inside and Ellipsis not in inside:
        return len(value) == len(inside) and all(map(allows, inside, value))
    if isinstance(value, list | tuple) and len(inside) == 1:
        return all(allows(inside[0], each) for each in value)
    return True


def _plain(value: object) -> object:
    """Return a path as text, and a number of NumPy as one of Python; all else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _named(option: Any) -> str:
    """Name a value or a type in an error."""
    kind = get_origin(option) or option
    if kind in (Collection, Iterable, Mapping, Sequence) and get_args(option)[-1] is not Any:
        inside = " or ".join(map(_named, options_of(get_args(option)[-1])))
        return f"{_NAMES[kind]} of {inside}"
    return str(_NAMES.get(kind) or getattr(kind, "__name__", kind))
