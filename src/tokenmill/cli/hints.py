"""Hints as one types them: the library writes them as Python, a command prints its own flags.

    tokenmill.open("train.bin", dtype="uint16")   becomes   --dtype uint16
    tokenmill.open("data/corpus")                           data/corpus
    pass overwrite=True to replace it                       pass --overwrite to replace it
    pass run=Run(max_ram="600M")                            pass --max_ram 600M

Only what is a flag of the command is changed: another call is still the way, in Python.
"""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatch

import click

_VALUE = r'True|False|"[^"]*"|-?\d[\d_.]*|'
_ARGUMENT = re.compile(rf"\b(\w+)=({_VALUE})")
_CALL = rf'(?:tokenmill\.open|load)\("(?P<path>[^"]*)"(?P<arguments>(?:, \w+=(?:{_VALUE}))*)\)'
_CALL_OR_ARGUMENT = re.compile(rf"{_CALL}|{_ARGUMENT.pattern}")
_OPTIONS = re.compile(r"\b(?:(?:run=)?Run|(?:details=)?Details)\(([^()]*?)(?:\.\.\.)?\)")
OTHER_NAMES = {"pattern": "token_pattern"}
"""Arguments of `load` whose flags have another name."""


def in_flags(text: str) -> str:
    """The text in the words of the command that runs."""
    context = click.get_current_context()
    return as_flags(text, context.command, [str(value) for value in context.params.values()])


def as_flags(text: str, command: click.Command, typed: Sequence[str] = ()) -> str:
    """The text with calls and arguments as flags of `command`; `typed` is what it was given."""
    flags = {option.name: option for option in command.params if isinstance(option, click.Option)}

    def written(match: re.Match[str]) -> str:
        path = match["path"]
        name = match[3]
        if path is None:
            return _flag(flags[name], match[4]) if name in flags else match[0]
        arguments = dict(_ARGUMENT.findall(match["arguments"]))
        arguments = {OTHER_NAMES.get(name, name): value for name, value in arguments.items()}
        if not set(arguments) - {"split"} <= set(flags):  # without --split, a command reads all
            return match[0]
        words = [_flag(flags[name], value) for name, value in arguments.items() if name in flags]
        if not words or not (path == "..." or _is_given(path, typed)):
            words.insert(0, shlex.quote(path))
        return " ".join(words)

    return _CALL_OR_ARGUMENT.sub(written, _OPTIONS.sub(r"\1", text))


def _is_given(path: str, typed: Sequence[str]) -> bool:
    """True if the command was given this path, or a folder or glob that it is in."""
    return any(
        path == word or path.startswith(f"{word.rstrip('/')}/") or fnmatch(path, word)
        for word in typed
        if not word.startswith("-")
    )


def _flag(option: click.Option, value: str) -> str:
    """One argument as one types it."""
    own = f"--{option.name}"
    name = own if own in option.opts else max(option.opts, key=len)
    if value == "False":
        return next(iter(option.secondary_opts), f"--no_{option.name}")
    return name if value in ("True", "") else f"{name} {shlex.quote(value.strip(chr(34)))}"
