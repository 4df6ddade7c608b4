"""`tokenmill inspect`: the contents of a dataset and how it was made."""

from typing import Any

import click

from tokenmill.base.human import one_line, plural
from tokenmill.cli.flags import given, open_options
from tokenmill.cli.outcome import Outcome, OutcomeCommand


@click.command(cls=OutcomeCommand)
@click.argument("path")
@open_options
def command(path: str, **options: Any) -> Outcome:
    """Print what the token data at PATH holds, in any format, and how it was made.

    Of a folder of several datasets, each is listed.

    \b
    Examples:
        tokenmill inspect data/corpus
        tokenmill inspect train.bin --dtype uint16 --tokenizer gpt2
        tokenmill inspect data/corpus --json | jq .splits.train.tokens
    """
    from tokenmill.errors import NotADatasetError
    from tokenmill.look.inspect import inspect, lines, list_datasets

    try:
        known = inspect(path, **given(options))
    except NotADatasetError:
        if not (datasets := list(list_datasets(path, **given(options)))):
            raise
        width = max(len(dataset["path"]) for dataset in datasets)
        rows = [one_line(f"  {found['path']:<{width}}  {_words(found)}") for found in datasets]
        title = f"{one_line(path)} holds {plural(len(datasets), 'dataset')}"
        return Outcome({"path": path, "datasets": datasets}, results=[title, *rows])
    return Outcome(known.to_json(), results=lines(known))


def _words(dataset: dict[str, Any]) -> str:
    counts = (f"{split} {count:,} tokens" for split, count in dataset["tokens"].items())
    return dataset["error"] or f"{dataset['format']} {dataset['dtype']}, {', '.join(counts)}"
