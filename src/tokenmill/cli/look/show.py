"""`tokenmill show`: decoded documents, windows, the batch of a step, and where a text is."""

import os
import re
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.flags import COUNT, OPEN_NAMES, Count, given, open_options, switch, value
from tokenmill.cli.outcome import Outcome, prints_outcome

if TYPE_CHECKING:
    from tokenmill.dataset import TokenDataset
    from tokenmill.look.show import Excerpt

AROUND = 24  # tokens shown on each side of a text that was found
WHAT = {"doc": "--doc", "tokens": "--tokens", "step": "--step", "text": "--find"}


@click.command()
@click.argument("path")
@value("--split", "NAME", "Which split, or `all`  [default: train, or all without splits]")
@value("--doc", "N", "Document number N, from 0", type=Count(least=0))
@value("--tokens", "A:B", "Tokens A to B of the split")
@value("--step", "K", "The batch of step K", type=Count(least=0))
@value("--find text", "TEXT", "Where TEXT occurs")
@value("--limit", "N", "Tokens of an excerpt, or texts found  [default: 2000, or 10]", type=COUNT)
@switch("--ids", "Print the id of each token too")
@switch("--plain", "Print the text alone, without edges of tokens")
@value("--rank", "N", "With --step: rank", default=0)
@value("--world_size", "N", "With --step: number of ranks", default=1)
@value("--batch_size", "N", "With --step: rows on a rank", default=8)
@value("--block_size", "N", "With --step: tokens of a row", default=1024)
@value("--seed", "N", "With --step: seed of the order", default=0)
@value("--order", "NAME", "With --step: name of the order", default="shuffle")
@switch("--phase", "With --step: the order moves by a phase each epoch")
@value("--rows", "KIND", "With --step: windows, packed or documents", default="windows")
@value("--begin_token", "ID", "With --step and documents: id put before each", type=int)
@value("--row", "I", "With --step: this row only", type=int)
@open_options
@prints_outcome
def command(
    path: str, split: str | None, limit: int | None, quiet: bool, **options: Any
) -> Outcome:
    """Print token data as text, with the edges of tokens and the end of each document visible.

    Control characters in the text are written out; each excerpt says its file, document and place.

    \b
    Examples:
        tokenmill show data/corpus --doc 17
        tokenmill show data/corpus --split val --tokens 1000:1100 --ids
        tokenmill show data/corpus --step 1000 --rank 0 --batch_size 8 --block_size 1024 --seed 0
        tokenmill show data/corpus --step 0 --rows packed --block_size 2048
        tokenmill show data/corpus --find "never seen again"
    """
    import tokenmill

    how = given({name: options.pop(name) for name in OPEN_NAMES})
    asked = given({name: options.pop(name) for name in WHAT})
    style = {name: options.pop(name) for name in ("plain", "ids")}
    if len(asked) > 1:
        flags = [WHAT[name] for name in asked]
        raise click.UsageError(f"Use just one of --doc, --tokens, --step and --find, not {flags}")
    data = tokenmill.open(path, split, **how)
    excerpts = _excerpts(data, asked, limit, options)
    first = list(islice(excerpts, 1))
    if not first and "text" in asked:
        return Outcome([], notes=[f"not found in {data.split or 'all'}"], exit_code=1)
    return Outcome(
        lambda: [excerpt.to_json() for excerpt in chain(first, excerpts)],
        results=(_text(each, quiet, **style) for each in chain(first, excerpts)),
        is_styled=True,
    )


def _excerpts(
    data: "TokenDataset", asked: dict[str, Any], limit: int | None, order: dict[str, Any]
) -> "Iterator[Excerpt]":
    from tokenmill.batches.batch_form import BatchForm
    from tokenmill.batches.loader import BatchLoader
    from tokenmill.look.find_text import find
    from tokenmill.look.show import MAX_TOKENS, show_document, show_step, show_tokens

    size = limit or MAX_TOKENS
    if "text" in asked:
        for match in islice(find(data, asked["text"]), limit or 10):
            start, stop = max(0, match.start - AROUND), min(match.stop + AROUND, data.num_tokens)
            yield show_tokens(data, start, stop, title=f"found at token {match.start:,}")
    elif "step" in asked:
        row = order.pop("row")
        loader = BatchLoader(data, form=BatchForm(prefetch=0, check_ids=False), **order)
        yield from show_step(loader, asked["step"], row=row, limit=size)
    elif "tokens" in asked:
        yield show_tokens(data, *_range(asked["tokens"], data.num_tokens), limit=size)
    elif "doc" in asked or data.knows_documents:
        yield show_document(data, asked.get("doc", 0), limit=size)
    else:
        yield show_tokens(data, 0, data.num_tokens, limit=limit or 500)


def _range(text: str, num_tokens: int) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([\d_,]*)\s*:\s*([\d_,]*)\s*", text)
    if match is None:
        wrong = f"{text!r} is not a range such as 1000:1100"
        raise click.BadParameter(wrong, param_hint="--tokens")
    first, last = (re.sub(r"[_,]", "", part) for part in match.groups())
    return int(first or 0), int(last or num_tokens)


def _text(excerpt: "Excerpt", quiet: bool, plain: bool, ids: bool) -> str:
    """The lines of one excerpt; with `plain`, its title is a note."""
    from tokenmill.base.human import visible
    from tokenmill.look.shown_tokens import render

    title = visible(f"{excerpt.title}  [{excerpt.place}]")
    if excerpt.left_out and not quiet:
        print(f"... {excerpt.left_out:,} more tokens (--limit)", file=sys.stderr)
    if plain:
        if not quiet:
            print(title, file=sys.stderr)
        return visible(b"".join(piece.data for piece in excerpt.tokens if not piece.special))
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"--- {title}\n{render(excerpt.tokens, color=color, with_ids=ids)}"
