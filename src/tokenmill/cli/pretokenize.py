"""`tokenmill pretokenize`: one text file, one .npy beside it."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import human_bytes
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import given, settings_flags, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, command_progress
from tokenmill.preparation.planning.settings import Settings

if TYPE_CHECKING:
    from tokenmill.preparation.pretokenize import Pretokenized

DTYPES = ("uint16", "uint32", "int32", "int64")


@click.command(cls=OutcomeCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE.txt...")
@settings_flags(
    Settings,
    only=("tokenizer", "end_of_text", "token_pattern", "separator"),
    tokenizer="--tokenization",
)
@value("--dtype", "KIND", "Stored type; by default by vocabulary", choices=DTYPES)
@switch("--force", "Write also where a newer .npy is")
def pretokenize(files: tuple[str, ...], **options: Any) -> Outcome:
    """Tokenize each text into one .npy array beside it: FILE.txt becomes FILE.npy.

    The text is taken as it is: one document without an end-of-text id; with --separator, documents
    with one each. A .npy that is newer than its text is kept. A run that was stopped resumes when
    the same command is given again.

    \b
    Examples:
      tokenmill pretokenize corpus.txt
      tokenmill pretokenize train.txt val.txt --dtype int32
      tokenmill pretokenize stories.txt --separator '<|endoftext|>'
    """
    from tokenmill.preparation.pretokenize import pretokenize
    from tokenmill.tokens.load_tokenizer import load

    pattern = options.pop("token_pattern")
    end = options.pop("end_of_text")
    if pattern is not None or end is not None:
        name = options["tokenizer"] or "gpt2"
        options["tokenizer"] = load(name, pattern=pattern, end_of_text=end)
    started = time.monotonic()
    with interrupt_on_signals(), command_progress() as progress:
        arrays = pretokenize(files, progress=progress, **given(options))
    entries = [{**asdict(a), "characters_per_token": a.characters_per_token} for a in arrays]
    return Outcome(
        {"files": entries, "seconds": round(time.monotonic() - started, 3)},
        notes=[line for array in arrays for line in _lines(array)],
    )


def _lines(array: "Pretokenized") -> Iterator[str]:
    if array.kept:
        held = f"{array.tokens:,} tokens, {array.dtype}"
        yield f"Kept {array.npy}: it is newer than {array.text} ({held}); --force writes it again"
        return
    yield f"Wrote {array.npy}"
    yield f"  characters            {array.characters:,}"
    yield f"  tokens                {array.tokens:,} of {array.tokenizer}"
    if array.documents:
        yield f"  documents             {array.documents:,}"
    yield f"  characters per token  {array.characters_per_token:.2f}"
    yield f"  size                  {human_bytes(array.bytes)}, {array.dtype}"
