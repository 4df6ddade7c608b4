"""A command with subcommands: `tokenmill prepare ...` runs, `tokenmill prepare plan ...` plans."""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from tokenmill.base.suggest import closest
from tokenmill.cli.flags import SectionedCommand


@dataclass(frozen=True)
class Subcommand:
    """One line of help, and the command as `module:name`, imported when it is called."""

    line: str
    home: str

    def load(self) -> click.Command:
        module, _, name = self.home.partition(":")
        command: click.Command = getattr(importlib.import_module(f"tokenmill.cli.{module}"), name)
        return command


class GroupWithMain(click.Group):
    """A group that runs its main command where the first word is not a subcommand.

    An input that has the name of a subcommand is written as `./plan`.
    """

    def __init__(self, main: SectionedCommand, subcommands: Mapping[str, Subcommand]) -> None:
        super().__init__(help=main.help)
        self.main_command = main
        self.subcommands = subcommands
        main.subcommands = {name: part.line for name, part in subcommands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        part = self.subcommands.get(cmd_name)
        return self.main_command if part is None else part.load()

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        first = args[0] if args else ""
        if first in self.subcommands:
            return super().make_context(info_name, args, parent, **extra)
        try:
            return self.main_command.make_context(info_name, args, parent, **extra)
        except click.MissingParameter as error:
            # `prepare stauts OUT` is read as two inputs without an output.
            close = closest(first, self.subcommands)
            if close and not os.path.lexists(first):
                message = f"there is no {first!r}; did you mean `{info_name} {close}`?"
                raise click.UsageError(message, error.ctx) from None
            raise
