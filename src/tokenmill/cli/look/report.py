"""`tokenmill report`: one HTML page about a dataset."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.flags import given, open_options, sample_option, value
from tokenmill.cli.outcome import Outcome, prints_outcome

if TYPE_CHECKING:
    from tokenmill.edits.usage import SourceUsage


@click.command()
@click.argument("path")
@value("-o --out", "FILE", "The page to write, or - for standard output", default="report.html")
@value("--run", "RUN", "Show how this run, such as runs/gpt, has used each shard")
@sample_option
@open_options
@prints_outcome
def command(
    path: str, out: str, run: str | None, sample: int, quiet: bool, **options: Any
) -> Outcome:
    """Write one HTML page about the token data at PATH; it opens offline, anywhere.

    Counts, splits and accounts, lengths of documents, top tokens, how much of the vocabulary is
    used, bytes a token, what the doctor says, and samples. Of large data an evenly spaced sample
    is read, and the page says so. The same data gives the same page. Exit code 0, whatever it
    says: `tokenmill doctor` is for scripts.

    \b
    Examples:
        tokenmill report data/corpus
        tokenmill report train.bin --dtype uint16 --tokenizer gpt2 -o train.html
        tokenmill report data/corpus --run runs/gpt
    """
    from tokenmill.base.atomic import write_atomically
    from tokenmill.pages.report import report

    if os.path.isdir(out):
        raise click.BadParameter(f"{out} is a folder; name a file", param_hint="-o")
    usage = None if run is None else _usage(run, path)
    page = report(path, sample=sample, usage=usage, **given(options)).encode("utf-8", "replace")
    outcome = {"file": out, "bytes": len(page)}
    if out == "-":
        sys.stdout.buffer.write(page)
        return Outcome(outcome)
    write_atomically(Path(out), page)
    return Outcome(outcome, notes=[f"Wrote {out} ({len(page):,} bytes)"])


def _usage(run: str, path: str) -> "SourceUsage":
    """How a run has used the data at a path."""
    from tokenmill.train.run_loader import open_run, source_at

    loader = open_run(Path(run), path).loader
    return loader.usage()[loader.names.index(source_at(loader, path))]
