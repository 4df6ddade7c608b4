"""`tokenmill report`: one HTML page about a dataset."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from tokenmill.cli.dataset_options import dataset_options, given


@click.command()
@click.argument("path")
@click.option(
    "-o",
    "--out",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="The page to write, or - for standard output",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=16 << 20,
    metavar="N",
    help="Tokens of each split to look at  [default: 16,777,216]",
)
@dataset_options
def command(path: str, out: str, sample: int, **options: Any) -> None:
    """Write one HTML page about the token data at PATH; it opens offline, anywhere.

    Counts, splits and books, lengths of documents, top tokens, how much of the vocabulary is used,
    bytes a token, what the doctor says, and samples. Large data is looked at in an evenly spaced
    sample; the page says so. The same data gives the same page. Exit code 0, whatever it says:
    `tokenmill doctor` is for scripts.

    \b
    Examples:
        tokenmill report data/corpus
        tokenmill report train.bin --dtype uint16 --tokenizer gpt2 -o train.html
    """
    from tokenmill.base.atomic import write_atomically
    from tokenmill.pages.report import report

    page = report(path, sample=sample, **given(**options)).encode("utf-8", "replace")
    if out == "-":
        sys.stdout.buffer.write(page)
        return
    if os.path.isdir(out):
        raise click.BadParameter(f"{out} is a folder; name a file", param_hint="-o")
    write_atomically(Path(out), page)
    print(f"Wrote {out} ({len(page):,} bytes)", file=sys.stderr)
