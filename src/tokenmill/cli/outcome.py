"""The output of a command: results on standard output, notes on standard error, or JSON.

A command that has an outcome returns an `Outcome` and is decorated with `@prints_outcome`, which
adds `--json` and `--quiet`. One rule for all: results and errors are always printed; notes and
progress are not with `--quiet`; `--json` prints one JSON value in place of results and notes.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from tokenmill.base.human import visible


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


def prints_outcome(command: Callable[..., Outcome]) -> Callable[..., None]:
    """Add `--json` and `--quiet` to a command; it is passed `quiet` and returns its outcome."""

    @click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON")
    @click.option("-q", "--quiet", is_flag=True, help="Print no progress and no notes")
    @functools.wraps(command)
    def run(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        outcome = command(*args, quiet=quiet, **options)
        if as_json:
            values = outcome.json() if callable(outcome.json) else outcome.json
            if values is not None:
                print(json.dumps(values, indent=2))
        else:
            for line in outcome.results:
                print(line if outcome.is_styled else visible(line))
            for line in () if quiet else outcome.notes:
                print(visible(line), file=sys.stderr)
        if outcome.exit_code:
            sys.exit(outcome.exit_code)

    return run
