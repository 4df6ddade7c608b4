"""`tokenmill view`: browse a dataset in a local page, or save one page about it."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tokenmill.base.human import visible
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import given, open_options, page_file, sample_option, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, is_quiet


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value(
    "--port", "N", "Port of 127.0.0.1; 0 for a free one", default=0, type=click.IntRange(0, 65535)
)
@switch("--no_browser", "Only print the address")
@value("--save", "FILE", "Write one page about the data; - for standard output", type=page_file)
@value("--run", "RUN", "With --save: how this run, such as runs/gpt, has used each shard")
@sample_option
@open_options
def command(
    path: str,
    port: int,
    no_browser: bool,
    save: str | None,
    run: str | None,
    sample: int,
    **options: Any,
) -> Outcome:
    """Browse the token data at PATH: documents with coloured tokens, batches, search.

    The pages are for this machine only, change nothing, and read only what they show. Ctrl-C ends
    it. With --save, writes one HTML file about the data, which opens offline, anywhere; of large
    data an evenly spaced sample is read, and the page says so.

    \b
    Examples:
        tokenmill view data/corpus
        tokenmill view train.bin --dtype uint16 --tokenizer gpt2 --port 8123 --no_browser
        tokenmill view data/corpus --save corpus.html --run runs/gpt
    """
    how = given(options)
    if save is not None:
        page = _make_page(path, save, run, sample=sample, **how)
        wrote = f"Wrote {save} ({len(page):,} bytes)"
        about = None if save == "-" else {"file": save, "bytes": len(page)}
        return Outcome(about, notes=[wrote])
    if run is not None:
        raise click.UsageError("--run is for the page that --save FILE writes")
    _serve(path, port, no_browser, how)
    return Outcome(None, notes=["stopped"])


def _make_page(path: str, file: str, run: str | None, **options: Any) -> bytes:
    from tokenmill.base.atomic import write_atomically
    from tokenmill.pages.report import report

    usage = None
    if run is not None:
        from tokenmill.train.run_data import open_run, source_at

        loader = open_run(Path(run), path).loader
        usage = loader.usage()[loader.names.index(source_at(loader, path))]
    page = report(path, usage=usage, **options).encode("utf-8", "replace")
    if file == "-":
        sys.stdout.buffer.write(page)
    else:
        write_atomically(Path(file), page)
    return page


def _serve(path: str, port: int, no_browser: bool, how: dict[str, Any]) -> None:
    import webbrowser

    from tokenmill.pages.routes import Site
    from tokenmill.pages.server import Server

    as_json = click.get_current_context().params["as_json"]
    with (
        Server(Site(path, **how), port) as server,
        interrupt_on_signals(),
        suppress(KeyboardInterrupt),
    ):
        name, address = server.site.name, server.address
        if as_json:  # printed now and not at the end, for the program that waits for it
            print(json.dumps({"name": name, "address": address}), flush=True)
        elif not is_quiet():
            print(f"{visible(name)} is at {address} (Ctrl-C ends it)", flush=True)
        if not no_browser:
            webbrowser.open(address)
        server.serve_forever(poll_interval=0.2)
