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

    Of a folder of several datasets, each is listed.

    \b
    Examples:
        tokenmill inspect data/corpus
        tokenmill inspect train.bin --dtype uint16 --tokenizer gpt2
        tokenmill inspect data/corpus --json | jq .splits.train.tokens
    """
    from tokenmill.errors import NotADatasetError
    from tokenmill.look.inspect import inspect, lines
    from tokenmill.look.list_datasets import lines_of_datasets, list_datasets

    try:
        known = inspect(path, **given(options))
    except NotADatasetError:
        if not (found := list_datasets(path, **given(options))):
            raise
        found_here = {"path": path, "datasets": found}
        return Outcome(found_here, results=lines_of_datasets(path, found))
    return Outcome(known, results=lines(known))
