"""`tokenmill verify`: check that the data is whole, unchanged and sound."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import one_line, plural
from tokenmill.cli.flags import given, open_options, sample_option, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, in_flags

if TYPE_CHECKING:
    from tokenmill.look.check import Check


@click.command(cls=OutcomeCommand)
@click.argument("path")
@switch("--full", "Read every byte and compare it with its hash")
@value("--subset", "P%", "Do that for a part of the shards, e.g. `5%`")
@sample_option
@open_options
def command(path: str, **options: Any) -> Outcome:
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
