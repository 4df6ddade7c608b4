"""`tokenmill verify`: is the data on disk what it should be?"""

import json
import sys
from typing import Any

import click

from tokenmill.cli.dataset_options import dataset_options, given

CORRUPT = 12


@click.command()
@click.argument("path")
@click.option("--full", is_flag=True, help="Read every byte and compare it with its hash")
@click.option("--subset", metavar="P%", help="Do that for a part of the shards, e.g. `5%`")
@dataset_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON")
@click.option("-q", "--quiet", is_flag=True, help="Print damage only")
def command(
    path: str, full: bool, subset: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Compare the files at PATH with their manifest, or with their own headers and indices.

    Sizes and the manifest at once; with --full or --subset also the bytes. One line for each
    damaged file, with the remedy. Exit code 0: sound; 10: no dataset here; 12: damaged.

    \b
    Examples:
        tokenmill verify data/corpus
        tokenmill verify data/corpus --full
        tokenmill verify data/corpus --subset 5%
    """
    from tokenmill.look.check import check
    from tokenmill.look.shown_tokens import one_line

    result = check(path, full=full, subset=subset, **given(**options))
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        for damage in result.damaged:
            print(
                one_line(f"{damage.file}: expected {damage.expected}, found {damage.found}; ")
                + f"remedy: {one_line(damage.remedy)}"
            )
        if not quiet:
            _say(result)
    if result.damaged:
        sys.exit(CORRUPT)


def _say(result: Any) -> None:
    for name in result.extra[:5]:
        print(f"note: {name!r} is not part of the dataset", file=sys.stderr)
    if len(result.extra) > 5:
        print(f"note: and {len(result.extra) - 5:,} files more", file=sys.stderr)
    if result.damaged:
        print(f"{result.path}: {len(result.damaged):,} damaged", file=sys.stderr)
        return
    how = "sizes"
    if result.shards_read:
        how = f"{result.shards_read:,} of {result.shards:,} shards "
        how += (
            "byte by byte" if result.has_hashes else "by index and ids (the format has no hashes)"
        )
    print(f"{result.path}: sound; compared {how}", file=sys.stderr)
