"""The output of a command: results on standard output, notes on standard error, or JSON.

One rule for all commands: results and errors are always printed; notes and progress are not with
`--quiet`; `--json` prints one JSON value in place of results and notes.

The library writes hints as Python. A command prints what is a flag of it as that flag:
`tokenmill.open("train.bin", dtype="uint16")` becomes `--dtype uint16` (`as_flags`).
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from tokenmill.base.descriptors import is_closed_pipe, open_descriptor
from tokenmill.base.human import visible
from tokenmill.base.progress import Progress, open_progress

_VALUE = r'True|False|"[^"]*"|-?\d[\d_.]*|'
_ARGUMENT = re.compile(rf"\b(\w+)=({_VALUE})")
_CALL = rf'(?:tokenmill\.open|load)\("(?P<path>[^"]*)"(?P<arguments>(?:, \w+=(?:{_VALUE}))*)\)'
_CALL_OR_ARGUMENT = re.compile(rf"{_CALL}|{_ARGUMENT.pattern}")
_OPTIONS = re.compile(r"\b(?:(?:run=)?Run|(?:details=)?Details)\(([^()]*?)(?:\.\.\.)?\)")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    json: Any
    """Plain values, or a function that makes them; None where `--json` has nothing to print."""
    results: Iterable[str] = ()
    """Lines for standard output: what was asked for, and what is wrong with it."""
    notes: Iterable[str] = ()
    """Lines for standard error, printed after the results."""
    exit_code: int = 0
    is_styled: bool = False
    """True if results hold colours for the terminal; else no control character is printed."""


OUTCOME_FLAGS = (
    click.Option(["--json", "as_json"], is_flag=True, help="Print the outcome as JSON"),
    click.Option(["-q", "--quiet"], is_flag=True, help="Print no progress and no notes"),
)


class OutcomeCommand(click.Command):
    """A command that returns its outcome, which is printed; with `--json` and `--quiet`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += OUTCOME_FLAGS

    def invoke(self, ctx: click.Context) -> None:
        options = {k: v for k, v in ctx.params.items() if k not in ("as_json", "quiet")}
        assert self.callback is not None
        outcome: Outcome = ctx.invoke(self.callback, **options)
        try:
            _print(outcome, as_json=ctx.params["as_json"])
            sys.stdout.flush()
        except OSError as error:
            if not is_closed_pipe(error):
                raise
            # The reader of our output went away (`| head`): not an error of ours.
            os.dup2(open_descriptor(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if outcome.exit_code:
            sys.exit(outcome.exit_code)


def _print(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        values = outcome.json() if callable(outcome.json) else outcome.json
        if values is not None:
            print(json.dumps(values, indent=2))
    else:
        for line in outcome.results:
            print(line if outcome.is_styled else visible(line))
        for line in outcome.notes:
            note(line)


def is_quiet() -> bool:
    """Return True if the command that runs was given `--quiet`."""
    return bool(click.get_current_context().params["quiet"])


def note(text: str) -> None:
    """Print a line on standard error, unless the command is quiet."""
    if not is_quiet():
        print(visible(text), file=sys.stderr)


def command_progress() -> Progress:
    """Return the progress of the command that runs; its sentences name flags."""
    return open_progress(quiet=is_quiet(), words=in_flags)


def in_flags(text: str) -> str:
    """Return the text in the words of the command that runs."""
    return as_flags(text, click.get_current_context().command)


def as_flags(text: str, command: click.Command) -> str:
    """Return the text with calls and arguments as flags of `command`."""
    options = [option for option in command.params if isinstance(option, click.Option)]
    flags = {option.name: option for option in options if not option.hidden}
    if "token_pattern" in flags:
        flags["pattern"] = flags["token_pattern"]  # its name in `load`

    def written(match: re.Match[str]) -> str:
        if match["path"] is None:
            return _flag(flags[match[3]], match[4]) if match[3] in flags else match[0]
        arguments = dict(_ARGUMENT.findall(match["arguments"]))
        if not set(arguments) - {"split"} <= set(flags):  # without --split, a command reads all
            return match[0]
        words = [_flag(flags[name], value) for name, value in arguments.items() if name in flags]
        return " ".join(words) or shlex.quote(match["path"])

    return _CALL_OR_ARGUMENT.sub(written, _OPTIONS.sub(r"\1", text))


def _flag(option: click.Option, value: str) -> str:
    own = f"--{option.name}"
    name = own if own in option.opts else max(option.opts, key=len)
    if value == "False":
        return next(iter(option.secondary_opts), f"--no_{option.name}")
    return name if value in ("True", "") else f"{name} {shlex.quote(value.strip(chr(34)))}"
