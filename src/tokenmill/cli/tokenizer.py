"""`tokenmill tokenizer`: train one, show one, compare two."""

import click

from tokenmill.cli.tokenizer_compare import compare
from tokenmill.cli.tokenizer_show import show
from tokenmill.cli.tokenizer_train import train


@click.group()
def command() -> None:
    """Train a tokenizer, show what is in one, or compare two on your text."""


for part in (train, show, compare):
    command.add_command(part)
