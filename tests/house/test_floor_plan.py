"""The house is easy to live in: maps that are right, names that occur once, files of one idea."""

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import tokenmill

PACKAGE = Path(tokenmill.__file__).parent
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
FILE_NAME = re.compile(r"\b\w+\.py\b")


def names(paths):
    return [str(path.relative_to(PACKAGE)) for path in paths]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE.parent)))
def test_a_room_says_what_it_is_for_and_names_what_is_there(room):
    """What each file is for is the first sentence of its docstring, and nowhere said again."""
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""

    assert docstring
    for name in FILE_NAME.findall(docstring):
        assert list(PACKAGE.rglob(name)), name


def test_no_two_modules_have_one_name():
    """A command in cli/ may have the name of the file that does its work."""
    paths = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    commands = [path for path in paths if path.is_relative_to(PACKAGE / "cli")]

    for group in (commands, [path for path in paths if path not in commands]):
        twice = [name for name, count in Counter(path.name for path in group).items() if count > 1]
        assert not twice


def public_callables():
    import tokenmill.compat
    import tokenmill.torch
    import tokenmill.train

    for module in (tokenmill, tokenmill.torch, tokenmill.compat, tokenmill.train):
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if name.startswith("_") or not callable(value) or not hasattr(value, "__module__"):
                continue
            if value.__module__.startswith("tokenmill"):
                yield f"{module.__name__}.{name}", value
                for method, function in inspect.getmembers(value, inspect.isroutine):
                    if not method.startswith("_") and inspect.isclass(value):
                        yield f"{module.__name__}.{name}.{method}", function


def test_public_functions_name_every_argument():
    """So that `help()` and completion show them."""
    hidden = []
    for name, function in public_callables():
        if inspect.isclass(function) and issubclass(function, BaseException):
            continue
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:
            continue  # written in C
        if not getattr(function, "__module__", "").startswith("tokenmill"):
            continue
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            hidden.append(name)

    assert not hidden
