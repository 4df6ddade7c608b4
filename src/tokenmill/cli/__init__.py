"""The command `tokenmill`: its commands, each imported when it is called.

flags.py makes flags, also from dataclasses; outcome.py prints what a command returns.
"""

import importlib
import io
import os
import sys
from typing import NoReturn

import click

from tokenmill.base.human import visible
from tokenmill.base.suggest import did_you_mean
from tokenmill.base.system import output_encoding
from tokenmill.errors import TokenmillError
from tokenmill.version import __version__

# title -> command -> its one line
COMMANDS = {
    "Make a dataset": {
        "prepare": "Tokenize text files into shards",
        "pretokenize": "Tokenize one text file into one .npy beside it",
        "download": "Fetch token shards from the Hugging Face hub",
        "upload": "Push a dataset to the Hugging Face hub",
        "retokenize": "Decode a dataset and encode it with another tokenizer",
        "convert": "Copy a dataset from or to another project's format",
        "forget": "Overwrite documents of a dataset, and certify it",
    },
    "Look at a dataset": {
        "inspect": "Print what a dataset holds and how it was made",
        "show": "Decode documents, windows or the batch of a step",
        "verify": "Check that a dataset is whole, unchanged and sound",
        "view": "Browse a dataset in a local page, or save a page about it",
    },
    "Tokenizers": {
        "tokenizer": "Train a tokenizer on text files, show one, compare two",
    },
    "Train": {
        "train": "Train a small GPT on token data",
        "edits": "Print the edits of a run, or ask for one while it trains",
        "when": "Print the steps and checkpoints that trained on a document",
        "sample": "Generate text with a trained model",
    },
}
# The file of each command whose name is not that of its file.
FILES = {
    **dict.fromkeys(("download", "upload"), "hub"),
    **dict.fromkeys(("inspect", "verify", "view"), "look"),
    **dict.fromkeys(("edits", "when"), "runs"),
    "pretokenize": "prepare",
    "retokenize": "convert",
    "sample": "train",
}


class Commands(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        names = self.list_commands(ctx)
        if cmd_name not in names:
            close = did_you_mean(cmd_name, names)
            raise click.UsageError(f"no command is called {cmd_name!r}{close}", ctx)
        module = importlib.import_module(f"tokenmill.cli.{FILES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands by what one wants to do, without importing any."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        # Every flag may be written with `_` or `-`; ours are spelled with `_`.
        "token_normalize_func": lambda token: token.replace("-", "_"),
        "max_content_width": 100,
    },
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, option, given: _print_version(ctx) if given else None,
    help="Show the version and exit.",
)
def tokenmill() -> None:
    """Tokenized text on disk, and the batches a training run reads from it."""


def _print_version(ctx: click.Context) -> NoReturn:
    from tokenmill import kernel

    has_loops = "with" if kernel.compiled is not None else "without"
    click.echo(f"tokenmill {__version__}, {has_loops} compiled loops")
    ctx.exit()


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command; errors become `error:` lines and exit codes, not tracebacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 ends no command
            stream.reconfigure(encoding=output_encoding(), errors="backslashreplace")
    try:
        tokenmill.main(args=args, prog_name="tokenmill", standalone_mode=False)
        sys.exit(0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as misuse:
        if type(misuse).__name__ == "NoArgsIsHelpError":  # not in every click that is allowed
            misuse.show()
        else:
            print(visible(f"error: {_explain(misuse)}"), file=sys.stderr)
        sys.exit(misuse.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(75)
    except MemoryError as error:
        print(visible(f"error: there is not enough memory: {error}"), file=sys.stderr)
        sys.exit(1)
    except (TokenmillError, ValueError, TypeError, OSError) as error:
        code = 2 if isinstance(error, ValueError) else 1
        if isinstance(error, TokenmillError):
            code = error.exit_code
        elif os.environ.get("TOKENMILL_TRACEBACK"):
            raise
        typed = sys.argv[1:] if args is None else args
        print(visible(f"error: {_in_flags_of(typed, str(error))}"), file=sys.stderr)
        sys.exit(code)


def _explain(misuse: click.ClickException) -> str:
    message = misuse.format_message().removesuffix(".")
    context = getattr(misuse, "ctx", None)
    if context is None:
        return message
    usage = " ".join(context.command.collect_usage_pieces(context))
    path = context.command_path
    message = message[0].lower() + message[1:]
    return f"{message}\n\nhint: {path} {usage}; `{path} --help` says more"


def _in_flags_of(words: list[str], text: str) -> str:
    from tokenmill.cli.outcome import as_flags  # only after a mistake

    names = [word for word in words if not word.startswith("-")]
    command: click.Command | None = tokenmill
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), names.pop(0) if names else "")
    return text if command is None else as_flags(text, command)
