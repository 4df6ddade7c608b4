"""`tokenmill pretokenize`: one text file, one .npy beside it."""

import dataclasses
import time
from typing import Any

import click
import orjson

from tokenmill.base.human import human_bytes
from tokenmill.base.progress import open_progress
from tokenmill.base.signals import interrupt_on_sigterm
from tokenmill.preparation.pretokenize import DTYPES, Pretokenized, pretokenize
from tokenmill.tokens.load_tokenizer import load


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
    resumes when the same command is given again.

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
    with interrupt_on_sigterm(), open_progress(quiet=quiet) as progress:
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
            f"{result.dtype}); --force writes it again"
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
