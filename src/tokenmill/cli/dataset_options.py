"""The options by which a command is told how to read the data; the same for all of them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--format", metavar="NAME", help="Format, where content does not tell it"),
    click.option("--dtype", metavar="TYPE", help="Type of the ids, where no file states it"),
    click.option("--tokenizer", metavar="NAME", help="Tokenizer, where the data names none"),
    click.option(
        "--end-of-text-id",
        type=int,
        metavar="ID",
        help="Id between documents, where the data names none",
    ),
]


def dataset_options(command: F) -> F:
    """Add --format, --dtype, --tokenizer and --end-of-text-id, passed on as `settings`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, for `tokenmill.open`."""
    return {name: value for name, value in options.items() if value is not None}
