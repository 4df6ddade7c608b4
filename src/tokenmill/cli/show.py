"""`tokenmill show`: decoded documents, ranges of tokens, the batch of a step, places of a text."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli import flags
from tokenmill.cli.flags import switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, in_flags, note

if TYPE_CHECKING:
    from tokenmill.dataset import TokenDataset
    from tokenmill.look.show import Excerpt

AROUND = 24  # tokens shown on each side of a text that was found
# What all of these take.
excerpt_options = flags.together(
    value("--split", "NAME", "Which split, or `all`  [default: train, or all without splits]"),
    switch("--ids", "Print the id of each token too"),
    switch("--plain", "Print the text alone, without edges of tokens"),
)
show_options = flags.together(excerpt_options, flags.open_options)
limit_option = value("--limit", "N", "Tokens of an excerpt", default=2000, type=flags.count)


@click.command(cls=flags.SectionedCommand)
@click.argument("path")
@click.argument("number", type=flags.position, default=0, metavar="[N]")
@limit_option
@show_options
@switch("--removed", "Print documents that rules left out, instead, and what was kept")
@value("--why", "RULE", "With --removed: left out by this rule, such as c4, or 'c4: reason'")
@value("--count", "N", "With --removed: how many documents", default=10, type=flags.count)
@value("--inputs", "DIR", "With --removed: folder of the inputs, read again", default=".")
def document(
    path: str,
    number: int,
    limit: int,
    removed: bool,
    why: str | None,
    count: int,
    inputs: str,
    **options: Any,
) -> Outcome:
    """Print document N of the data at PATH as text, by default the first.

    The edges of tokens and the end of the document are visible. Data that does not know its
    documents is shown from its first token on.

    \b
    Examples:
        tokenmill show data/corpus
        tokenmill show document data/corpus 17
        tokenmill show tokens data/corpus 1000:1100 --split val --ids
        tokenmill show batch data/corpus 1000 --batch_size 8 --block_size 1024 --seed 0
        tokenmill show text data/corpus "never seen again"
        tokenmill show --removed --why length data/corpus
    """
    if removed:
        return _removed(path, limit, why=why, count=count, inputs=inputs)
    from tokenmill.look.show import show_document, show_tokens

    data = _open(path, options)
    if data.knows_documents or number:
        return _outcome([show_document(data, number, limit=limit)], **options)
    return _outcome([show_tokens(data, 0, data.num_tokens, limit=limit)], **options)


def _removed(path: str, limit: int, **options: Any) -> Outcome:
    from tokenmill.look.removed_documents import removed_documents, to_text

    found = removed_documents(path, **options)
    if not found:
        why = options["why"]
        return Outcome([], results=["no document was left out" + (f" by {why}" if why else "")])
    lines = (in_flags(line) for line in to_text(found, options["inputs"], limit))
    return Outcome([each.to_json() for each in found], results=lines)


@click.command(cls=OutcomeCommand)
@click.argument("path")
@click.argument("wanted", metavar="A:B")
@limit_option
@show_options
def tokens(path: str, wanted: str, limit: int, **options: Any) -> Outcome:
    """Print tokens A to B of a split of the data at PATH as text."""
    from tokenmill.look.show import show_tokens

    data = _open(path, options)
    excerpt = show_tokens(data, *_range(wanted, data.num_tokens), limit=limit)
    return _outcome([excerpt], **options)


@click.command(cls=OutcomeCommand)
@click.argument("path")
@click.argument("step", type=flags.position)
@value("--rank", "N", "Rank", default=0)
@value("--world_size", "N", "Number of ranks", default=1)
@value("--batch_size", "N", "Rows on a rank", default=8)
@value("--block_size", "N", "Tokens of a row", default=1024)
@value("--seed", "N", "Seed of the order", default=0)
@value("--order", "NAME", "Name of the order", default="shuffle")
@switch("--phase", "The order moves by a phase each epoch")
@value("--rows", "KIND", "windows, packed or documents", default="windows")
@value("--begin_token", "ID", "With rows of documents: id put before each", type=int)
@value("--long", "KIND", "Documents longer than a row: split, cut or drop", default="split")
@value("--row", "I", "This row only", type=int)
@limit_option
@excerpt_options
@flags.file_options
def batch(path: str, step: int, row: int | None, limit: int, **options: Any) -> Outcome:
    """Print the batch that a step trains on, from the data at PATH, row by row.

    \b
    Examples:
        tokenmill show batch data/corpus 1000 --rank 0 --batch_size 8 --block_size 1024 --seed 0
        tokenmill show batch data/corpus 0 --rows packed --block_size 2048
    """
    from tokenmill.batches.batch_form import BatchForm
    from tokenmill.batches.loader import BatchLoader
    from tokenmill.look.show import show_step

    begin_token = options.pop("begin_token")  # to put into rows: not what the data begins with
    data = _open(path, options)
    printed = {name: options.pop(name) for name in ("ids", "plain")}
    form = BatchForm(prefetch=0, check_ids=False)
    loader = BatchLoader(data, form=form, begin_token=begin_token, **options)
    return _outcome(show_step(loader, step, row=row, limit=limit), **printed)


@click.command(cls=OutcomeCommand)
@click.argument("path")
@click.argument("wanted", metavar="TEXT")
@value("--limit", "N", "Texts to find", default=10, type=flags.count)
@show_options
def text(path: str, wanted: str, limit: int, **options: Any) -> Outcome:
    """Print where TEXT occurs in the data at PATH. Exit code 1: nowhere."""
    from tokenmill.look.find_text import find
    from tokenmill.look.show import show_tokens

    data = _open(path, options)

    def excerpts() -> "Iterator[Excerpt]":
        for match in islice(find(data, wanted), limit):
            start = max(0, match.start - AROUND)
            stop = min(match.stop + AROUND, data.num_tokens)
            yield show_tokens(data, start, stop, title=f"found at token {match.start:,}")

    matches = excerpts()
    first = next(matches, None)
    if first is None:
        return Outcome([], notes=[f"not found in {data.split or 'all'}"], exit_code=1)
    return _outcome(chain([first], matches), **options)


def _open(path: str, options: dict[str, Any]) -> "TokenDataset":
    """The data at a path; takes the options of `open` out of `options`."""
    import tokenmill

    split = options.pop("split")
    how = {name: options.pop(name, None) for name in flags.OPEN_NAMES}
    return tokenmill.open(path, split, **flags.given(how))


def _outcome(excerpts: "Iterable[Excerpt]", *, ids: bool, plain: bool) -> Outcome:
    """Excerpts as text, each made when it is printed; or as JSON."""
    return Outcome(
        lambda: [excerpt.to_json() for excerpt in excerpts],
        results=(_text(excerpt, plain, ids) for excerpt in excerpts),
        is_styled=True,
    )


def _range(text: str, num_tokens: int) -> tuple[int, int]:
    first, colon, last = re.sub(r"[_,\s]", "", text).partition(":")
    if not colon or not (first + last or "0").isdecimal():
        wrong = f"{text!r} is not a range such as 1000:1100"
        raise click.BadParameter(wrong, param_hint="A:B")
    return int(first or 0), int(last or num_tokens)


def _text(excerpt: "Excerpt", plain: bool, ids: bool) -> str:
    """The lines of one excerpt; with `plain`, its title is a note."""
    from tokenmill.base.human import visible
    from tokenmill.batches.lookup import one_line_of
    from tokenmill.look.show import render

    facts = f"; {one_line_of(excerpt.facts)}" if excerpt.facts else ""
    title = visible(f"{excerpt.title}  [{excerpt.place}{facts}]")
    if excerpt.left_out:
        note(f"... {excerpt.left_out:,} more tokens (--limit)")
    if plain:
        note(title)
        return visible(b"".join(piece.data for piece in excerpt.tokens if not piece.special))
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"--- {title}\n{render(excerpt.tokens, color=color, with_ids=ids)}"


show = flags.GroupWithMain(
    document,
    "show",
    {
        "document": "Print one document (without a subcommand, too)",
        "tokens": "Print a range of tokens",
        "batch": "Print the batch of a step",
        "text": "Find a text",
    },
)
