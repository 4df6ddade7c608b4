"""`tokenmill view`: browse a dataset in a local page, or save one page about it."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import visible
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import given, open_options, sample_option, switch, value

if TYPE_CHECKING:
    from tokenmill.edits.usage import SourceUsage


@click.command()
@click.argument("path")
@value(
    "--port", "N", "Port of 127.0.0.1; 0 for a free one", default=0, type=click.IntRange(0, 65535)
)
@switch("--no_browser", "Only print the address")
@value("--save", "FILE", "Write one page about the data instead; - for standard output")
@value("--run", "RUN", "With --save: how this run, such as runs/gpt, has used each shard")
@sample_option
@open_options
@switch("--json as_json", "Print the address, or the file, as JSON")
@switch("-q --quiet", "Print no address")
def command(
    path: str, port: int, no_browser: bool, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Browse the token data at PATH: documents with coloured tokens, batches, search.

    The pages are for this machine only, change nothing, and read only what they show, so that any
    size opens immediately. Ctrl-C ends it.

    With --save, writes one HTML file that opens offline, anywhere: counts, splits and accounts,
    lengths of documents, top tokens, how much of the vocabulary is used, bytes per token, what
    `tokenmill verify` says, and samples. Of large data an evenly spaced sample is read, and the
    page says so. The same data gives the same page.

    \b
    Examples:
        tokenmill view data/corpus
        tokenmill view train.bin --dtype uint16 --tokenizer gpt2 --port 8123 --no_browser
        tokenmill view data/corpus --save corpus.html --run runs/gpt
    """
    save, run, sample = (options.pop(name) for name in ("save", "run", "sample"))
    if save is not None:
        saved = _save(path, save, run, sample, given(options))
        if as_json and save != "-":
            print(json.dumps(saved))
        elif not quiet:
            print(visible(f"Wrote {save} ({saved['bytes']:,} bytes)"), file=sys.stderr)
        return
    if run is not None:
        raise click.UsageError("--run is for the page that --save FILE writes")
    _serve(path, port, no_browser, as_json, quiet, given(options))


def _save(
    path: str, file: str, run: str | None, sample: int, how: dict[str, Any]
) -> dict[str, Any]:
    from tokenmill.base.atomic import write_atomically
    from tokenmill.pages.report import report

    if os.path.isdir(file):
        raise click.BadParameter(f"{file} is a folder; name a file", param_hint="--save")
    usage = None if run is None else _usage(run, path)
    page = report(path, sample=sample, usage=usage, **how).encode("utf-8", "replace")
    if file == "-":
        sys.stdout.buffer.write(page)
    else:
        write_atomically(Path(file), page)
    return {"file": file, "bytes": len(page)}


def _usage(run: str, path: str) -> "SourceUsage":
    """The use of the data at a path by a run."""
    from tokenmill.train.run_loader import open_run, source_at

    loader = open_run(Path(run), path).loader
    return loader.usage()[loader.names.index(source_at(loader, path))]


def _serve(
    path: str, port: int, no_browser: bool, as_json: bool, quiet: bool, how: dict[str, Any]
) -> None:
    import webbrowser

    from tokenmill.pages.routes import Site
    from tokenmill.pages.server import Server

    with Server(Site.open(path, **how), port) as server, interrupt_on_signals():
        if as_json:  # printed now and not at the end, for the program that waits for it
            print(json.dumps({"name": server.site.name, "address": server.address}), flush=True)
        elif not quiet:
            print(
                f"{visible(server.site.name)} is at {server.address} (Ctrl-C ends it)", flush=True
            )
        if not no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            if not quiet:
                print("stopped", file=sys.stderr)
