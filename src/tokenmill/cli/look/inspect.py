"""`tokenmill inspect`: what a dataset holds and how it was made."""

from typing import Any

import click

from tokenmill.cli.flags import given, open_options
from tokenmill.cli.outcome import Outcome, prints_outcome


@click.command()
@click.argument("path")
@open_options
@prints_outcome
def command(path: str, quiet: bool, **options: Any) -> Outcome:
    """Print what the token data at PATH holds, in any format, and how it was made.

    \b
    Examples:
        tokenmill inspect data/corpus
        tokenmill inspect train.bin --dtype uint16 --tokenizer gpt2
        tokenmill inspect data/corpus --json | jq .splits.train.tokens
    """
    from tokenmill.look.inspect import inspect, lines

    known = inspect(path, **given(options))
    return Outcome(known, results=lines(known))
