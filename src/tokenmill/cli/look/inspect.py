"""`tokenmill inspect`: what a dataset holds and how it was made."""

import json
from typing import Any

import click

from tokenmill.cli.dataset_options import dataset_options, given


@click.command()
@click.argument("path")
@dataset_options
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON")
def command(path: str, as_json: bool, **options: Any) -> None:
    """Print what the token data at PATH holds, in any format, and how it was made.

    \b
    Examples:
        tokenmill inspect data/corpus
        tokenmill inspect train.bin --dtype uint16 --tokenizer gpt2
        tokenmill inspect data/corpus --json | jq .splits.train.tokens
    """
    from tokenmill.look.inspect import inspect, lines

    known = inspect(path, **given(**options))
    print(json.dumps(known, indent=2) if as_json else "\n".join(lines(known)))
