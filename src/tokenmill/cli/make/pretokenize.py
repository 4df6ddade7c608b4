"""`tokenmill pretokenize`: one text file, one .npy beside it."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator
from typing import Any

import click
import orjson

from tokenmill.base.human import human_bytes, human_count
from tokenmill.base.signals import interrupt_on_sigterm
from tokenmill.preparation.pretokenize import DTYPES, Pretokenized, Progress, Text, pretokenize
from tokenmill.tokens.encode_stream import Place
from tokenmill.tokens.load_tokenizer import load

SECONDS_BETWEEN_LINES = 10.0


@click.command(short_help="Tokenize one text file into one .npy beside it")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE.txt...")
@click.option(
    "--tokenizer",
    "--tokenization",
    default="gpt2",
    show_default=True,
    help="`gpt2`, `bytes`, `chars`, or a tokenizer.json, .tiktoken or .model file",
)
@click.option(
    "--token-pattern",
    metavar="NAME",
    help="Split pattern of a .tiktoken file: `gpt2`, `cl100k` or `o200k`",
)
@click.option(
    "--end-of-text", metavar="TOKEN", help="End-of-text token or id of a file that does not say"
)
@click.option("--dtype", type=click.Choice(DTYPES), help="Stored type  [default: by vocabulary]")
@click.option(
    "--separator",
    metavar="TEXT",
    help="Between documents; each gets the end-of-text id  [default: one document, no such id]",
)
@click.option("--force", is_flag=True, help="Write also where a newer .npy is")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to standard output")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only")
def command(
    files: tuple[str, ...],
    tokenizer: str,
    token_pattern: str | None,
    end_of_text: str | None,
    dtype: str | None,
    separator: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tokenize each text into one .npy array beside it: FILE.txt becomes FILE.npy.

    The text is taken as it is. A .npy that is newer than its text is kept. A run that was stopped
    goes on when the same command is given again.

    \b
    Examples:
      tokenmill pretokenize corpus.txt
      tokenmill pretokenize train.txt val.txt --dtype int32
      tokenmill pretokenize stories.txt --separator '<|endoftext|>'
    """
    number: str | int | None = end_of_text
    if end_of_text is not None and end_of_text.isdecimal():
        number = int(end_of_text)
    chosen: Any = tokenizer
    if token_pattern is not None or end_of_text is not None:
        chosen = load(tokenizer, pattern=token_pattern, end_of_text=number)
    started = time.monotonic()
    with interrupt_on_sigterm(), _shown(quiet) as progress:
        results = pretokenize(
            files,
            tokenizer=chosen,
            dtype=dtype,
            separator=separator,
            force=force,
            progress=progress,
        )
    if not quiet:
        for result in results:
            click.echo(_summary(result), err=True)
    if as_json:
        seconds = round(time.monotonic() - started, 3)
        entries = [
            {**dataclasses.asdict(result), "characters_per_token": result.characters_per_token}
            for result in results
        ]
        click.echo(orjson.dumps({"files": entries, "seconds": seconds}))


def _summary(result: Pretokenized) -> str:
    if result.kept:
        return (
            f"Kept {result.npy}: it is newer than {result.text} ({result.tokens:,} tokens, "
            f"{result.dtype}); --force writes it anew"
        )
    lines = [
        f"Wrote {result.npy}",
        f"  characters            {result.characters:,}",
        f"  tokens                {result.tokens:,} of {result.tokenizer}",
    ]
    if result.documents:
        lines.append(f"  documents             {result.documents:,}")
    lines += [
        f"  characters per token  {result.characters_per_token:.2f}",
        f"  size                  {human_bytes(result.bytes)}, {result.dtype}",
    ]
    return "\n".join(lines)


@contextlib.contextmanager
def _shown(quiet: bool) -> Iterator[Progress | None]:
    """A bar on a terminal, a line now and then elsewhere, nothing when quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as progress:
            yield progress
    else:
        yield _lines()


def _lines() -> Progress:
    last = time.monotonic()

    def progress(text: Text, place: Place) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            click.echo(_reached(text, place), err=True)

    return progress


def _reached(text: Text, place: Place) -> str:
    of = "" if text.compression else f" of {human_bytes(text.size)}"
    return (
        f"{text.path}: {human_bytes(place.bytes)}{of}, {human_count(place.characters)} characters "
        f"-> {human_count(place.tokens)} tokens"
    )


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[tokens]} tokens"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(text: Text, place: Place) -> None:
            name = str(text.path)
            if name not in tasks:
                total = None if text.compression else text.size
                tasks[name] = bar.add_task(escape(text.path.name), total=total, tokens="0")
            bar.update(tasks[name], completed=place.bytes, tokens=f"{place.tokens:,}")

        yield progress
