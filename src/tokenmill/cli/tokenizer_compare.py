"""`tokenmill tokenizer compare`: two tokenizers on the same text."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import human_bytes, plural
from tokenmill.cli.flags import given, settings_flags, size, value
from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.preparation.planning.settings import Settings

if TYPE_CHECKING:
    from tokenmill.look.compare_tokenizers import Comparison


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@value("--html", "FILE", "Also write the comparison as a page with plots")
@value("--sample", "SIZE", "Text to compare on", default=8 << 20, type=size)
@settings_flags(Settings, only=("text_field", "separator"))
@prints_outcome
def compare(
    first: str,
    second: str,
    inputs: tuple[str, ...],
    html: str | None,
    quiet: bool,
    **options: Any,
) -> Outcome:
    """Encode the same text with tokenizers A and B, and print how they differ.

    Bytes a token, tokens a word by script, how many tokens both vocabularies have, and speed. The
    text is taken as it is, without cleaning; of large inputs an evenly spaced sample is read.

    \b
    Examples:
        tokenmill tokenizer compare gpt2 tok/ corpus/*.jsonl
        tokenmill tokenizer compare tok-32k/ tok-64k/ held/ --html compare.html
    """
    from tokenmill.look.compare_tokenizers import compare_tokenizers

    if html is not None and os.path.isdir(html):
        raise click.BadParameter(f"{html} is a folder; name a file", param_hint="--html")
    found = compare_tokenizers(first, second, inputs, **given(options))
    notes = []
    if html is not None:
        from tokenmill.base.atomic import write_atomically
        from tokenmill.pages.compare_page import compare_page

        write_atomically(Path(html), compare_page(found).encode("utf-8", "replace"))
        notes.append(f"Wrote {html}")
    return Outcome(found.to_json(), results=_lines(found), notes=notes)


def _lines(found: "Comparison") -> Iterator[str]:
    text = f"{human_bytes(found.text_bytes)}, {plural(found.words, 'word')}"
    yield f"text  {text}, from {plural(found.files, 'file')} of {human_bytes(found.bytes_in)}"
    yield ""
    first, second = found.tokenizers
    *figures, speed = found.side_by_side()
    rows = [("", first.name, second.name), *figures]
    for script in found.scripts:
        if script.words:
            one, other = (f"{value:.3f}" for value in script.fertility)
            rows.append((f"  {script.script}", one, other))
    rows.append(speed)
    left, middle, right = (max(map(len, column)) for column in zip(*rows, strict=True))
    for label, one, other in rows:
        yield f"{label:<{left}}  {one:>{middle}}  {other:>{right}}"
