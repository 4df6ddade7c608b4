"""A command with subcommands: `tokenmill prepare ...` runs, `tokenmill prepare plan ...` plans."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click

from tokenmill.base.suggest import closest
from tokenmill.cli.flags import SectionedCommand


class GroupWithMain(click.Group):
    """A group that runs its main command where the first word is not a subcommand.

    `lines` has a line of help for each subcommand, which is imported from `tokenmill.cli.MODULE`
    when it is called. An input that has the name of a subcommand is written as `./plan`.
    """

    def __init__(self, main: SectionedCommand, module: str, lines: Mapping[str, str]) -> None:
        super().__init__(help=main.help)
        self.main_command = main
        self.module = module
        self.lines = lines
        main.subcommands = lines

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in self.lines:
            return self.main_command
        module = importlib.import_module(f"tokenmill.cli.{self.module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        first = args[0] if args else ""
        if first in self.lines:
            return super().make_context(info_name, args, parent, **extra)
        try:
            return self.main_command.make_context(info_name, args, parent, **extra)
        except click.MissingParameter as error:
            # `prepare stauts OUT` is read as two inputs without an output.
            close = closest(first, self.lines)
            if close and not os.path.lexists(first):
                message = f"there is no {first!r}; did you mean `{info_name} {close}`?"
                raise click.UsageError(message, error.ctx) from None
            raise
