"""`tokenmill view`: browse a dataset in a local page."""

import json
import sys
from typing import Any

import click

from tokenmill.base.human import visible
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import given, open_options, switch, value


@click.command()
@click.argument("path")
@value(
    "--port", "N", "Port of 127.0.0.1; 0 for a free one", default=0, type=click.IntRange(0, 65535)
)
@switch("--no_browser", "Only print the address")
@open_options
@switch("--json as_json", "Print the address as JSON")
@switch("-q --quiet", "Print no address")
def command(
    path: str, port: int, no_browser: bool, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Browse the token data at PATH: documents with coloured tokens, batches, search.

    The pages are for this machine only, change nothing, and read only what they show, so that any
    size opens at once. Ctrl-C ends it.

    \b
    Examples:
        tokenmill view data/corpus
        tokenmill view train.bin --dtype uint16 --tokenizer gpt2 --port 8123 --no_browser
    """
    import webbrowser

    from tokenmill.pages.server import Server
    from tokenmill.pages.site.routes import Site

    with Server(Site.open(path, **given(options)), port) as server, interrupt_on_signals():
        if as_json:  # printed at once and not at the end, for the program that waits for it
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
