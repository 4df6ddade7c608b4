"""`tokenmill tokenizer`: train one, show one, compare two."""

import click

from tokenmill.cli.tokenizers.tokenizer_train import train


@click.group()
def command() -> None:
    """Train a tokenizer, show what is in one, or compare two on your text."""


command.add_command(train)
