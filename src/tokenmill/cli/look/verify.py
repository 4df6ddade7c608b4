"""`tokenmill verify`: is the data on disk what it should be?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import given, open_options, switch, value
from tokenmill.cli.outcome import Outcome, prints_outcome

if TYPE_CHECKING:
    from tokenmill.look.check import Check


@click.command()
@click.argument("path")
@switch("--full", "Read every byte and compare it with its hash")
@value("--subset", "P%", "Do that for a part of the shards, e.g. `5%`")
@open_options
@prints_outcome
def command(path: str, full: bool, subset: str | None, quiet: bool, **options: Any) -> Outcome:
    """Compare the files at PATH with their manifest, or with their own headers and indices.

    Sizes and the manifest at once; with --full or --subset also the bytes. One line for each
    damaged file, with the remedy. Exit code 0: sound; 10: no dataset here; 12: damaged.

    \b
    Examples:
        tokenmill verify data/corpus
        tokenmill verify data/corpus --full
        tokenmill verify data/corpus --subset 5%
    """
    from tokenmill.base.human import one_line
    from tokenmill.look.check import verify

    result = verify(path, full=full, subset=subset, **given(options))
    return Outcome(
        result.to_json(),
        results=[
            one_line(f"{damage.file}: expected {damage.expected}, found {damage.found}; ")
            + f"remedy: {one_line(damage.remedy)}"
            for damage in result.damaged
        ],
        notes=_notes(result),
        exit_code=12 if result.damaged else 0,
    )


def _notes(result: "Check") -> Iterator[str]:
    for name in result.extra[:5]:
        yield f"note: {name!r} is not part of the dataset"
    if len(result.extra) > 5:
        yield f"note: and {plural(len(result.extra) - 5, 'file')} more"
    yield from (f"note: {note}" for note in result.notes)
    if result.damaged:
        yield f"{result.path}: {len(result.damaged):,} damaged"
        return
    how = "byte by byte" if result.has_hashes else "by index and ids (the format has no hashes)"
    read = f"{result.shards_read:,} of {plural(result.shards, 'shard')} {how}"
    yield f"{result.path}: sound; compared {read if result.shards_read else 'sizes'}"
