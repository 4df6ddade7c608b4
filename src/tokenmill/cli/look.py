"""`tokenmill inspect`, `verify` and `view`: what a dataset holds, and whether it is sound."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import one_line, plural, visible
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import count, given, open_options, page_file, sample_option, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, in_flags, is_quiet

if TYPE_CHECKING:
    from tokenmill.look.check import Check


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value("--block_size", "N", "Tokens of a window, of which the number is printed", type=count)
@open_options
def inspect(path: str, **options: Any) -> Outcome:
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
        options.pop("block_size")
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


@click.command(cls=OutcomeCommand)
@click.argument("path")
@switch("--full", "Read every byte and compare it with its hash")
@value("--subset", "P%", "Do that for a part of the shards, e.g. `5%`")
@sample_option
@open_options
def verify(path: str, **options: Any) -> Outcome:
    """Check that the token data at PATH is whole, unchanged and sound.

    Compares sizes and the manifest, or the headers and indices of other formats; with --full or
    --subset also the bytes. Then looks at a sample of the tokens for known traps, from a header
    read as tokens to text that is in train and val. Each is printed with its evidence and the fix.

    Exit code 0: sound; 10: no token data here; 12: damaged or unsound.

    \b
    Examples:
        tokenmill verify data/corpus
        tokenmill verify data/corpus --full
        tokenmill verify train.bin --dtype uint16 --tokenizer gpt2
    """
    from tokenmill.look.check import verify

    result = verify(path, **given(options))
    return Outcome(
        result.to_json(),
        results=_results(result),
        notes=_notes(result),
        exit_code=0 if result.ok else 12,
    )


def _results(result: "Check") -> Iterator[str]:
    for damage in result.damaged:
        difference = f"{damage.file}: expected {damage.expected}, found {damage.found}; "
        yield one_line(difference) + f"remedy: {one_line(damage.remedy)}"
    for trap in result.traps:
        text = str(replace(trap, fix=in_flags(trap.fix)))
        yield from map(one_line, text.splitlines())


def _notes(result: "Check") -> Iterator[str]:
    for name in result.extra[:5]:
        yield f"note: {name!r} is not part of the dataset"
    if len(result.extra) > 5:
        yield f"note: and {plural(len(result.extra) - 5, 'file')} more"
    yield from (f"note: {note}" for note in result.notes)
    yield from (f"note: no file states the {n}; {v} fits" for n, v in result.assumed.items())
    if result.damaged:
        yield f"{result.path}: {len(result.damaged):,} damaged"
        return
    if not result.ok:
        yield f"{result.path}: unsound"
        return
    how = "byte by byte" if result.has_hashes else "by index and ids (the format has no hashes)"
    read = f"{result.shards_read:,} of {plural(result.shards, 'shard')} {how}"
    compared = read if result.shards_read else "sizes"
    sampled = f"looked at {result.tokens_sampled:,} of {plural(result.tokens, 'token')}"
    yield f"{result.path}: sound; compared {compared}, {sampled}"


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
def view(
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
