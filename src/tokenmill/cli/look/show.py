"""`tokenmill show`: decoded documents, windows, the batch of a step, and where a text is."""

import json
import os
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.dataset_options import dataset_options, given

if TYPE_CHECKING:
    from tokenmill.dataset import TokenDataset
    from tokenmill.look.show import Excerpt

AROUND = 24  # tokens shown on each side of a text that was found


@click.command()
@click.argument("path")
@click.option("--split", default="train", show_default=True, help="`train`, `val`, `test` or `all`")
@click.option("--doc", type=click.IntRange(min=0), metavar="N", help="Document number N, from 0")
@click.option("--tokens", metavar="A:B", help="Tokens A to B of the split")
@click.option("--step", type=click.IntRange(min=0), metavar="K", help="The batch of step K")
@click.option("--find", "text", metavar="TEXT", help="Where TEXT occurs")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens of an excerpt, or texts found  [default: 2000, or 10]",
)
@click.option("--ids", is_flag=True, help="Print the id of each token too")
@click.option("--plain", is_flag=True, help="Print the text alone, without edges of tokens")
@click.option("--rank", default=0, show_default=True, help="With --step: rank")
@click.option("--world-size", default=1, show_default=True, help="With --step: number of ranks")
@click.option("--batch-size", default=8, show_default=True, help="With --step: rows on a rank")
@click.option("--block-size", default=1024, show_default=True, help="With --step: tokens of a row")
@click.option("--seed", default=0, show_default=True, help="With --step: seed of the order")
@click.option(
    "--order", default="shuffle", show_default=True, help="With --step: name of the order"
)
@click.option("--phase", is_flag=True, help="With --step: the order moves by a phase each epoch")
@click.option("--row", type=int, metavar="I", help="With --step: this row only")
@dataset_options
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON")
def command(
    path: str,
    split: str,
    doc: int | None,
    tokens: str | None,
    step: int | None,
    text: str | None,
    limit: int | None,
    ids: bool,
    plain: bool,
    as_json: bool,
    format: str | None,
    dtype: str | None,
    tokenizer: str | None,
    end_of_text_id: int | None,
    **order: Any,
) -> None:
    """Print token data as text, with the edges of tokens and the end of each document visible.

    Control characters in the text are written out; each excerpt says its file, document and place.

    \b
    Examples:
        tokenmill show data/corpus --doc 17
        tokenmill show data/corpus --split val --tokens 1000:1100 --ids
        tokenmill show data/corpus --step 1000 --rank 0 --batch-size 8 --block-size 1024 --seed 0
        tokenmill show data/corpus --find "never seen again"
    """
    import tokenmill

    asked = [
        name
        for name, value in (
            ("--doc", doc),
            ("--tokens", tokens),
            ("--step", step),
            ("--find", text),
        )
        if value is not None
    ]
    if len(asked) > 1:
        raise click.UsageError(f"Use just one of --doc, --tokens, --step and --find, not {asked}")
    settings = given(format=format, dtype=dtype, tokenizer=tokenizer, end_of_text_id=end_of_text_id)
    data = tokenmill.open(path, None if split == "all" else split, **settings)
    excerpts = _excerpts(data, doc, tokens, step, text, limit, order)
    if as_json:
        print(json.dumps([excerpt.as_dict() for excerpt in excerpts], indent=1))
        return
    count = 0
    for excerpt in excerpts:
        _print(excerpt, plain=plain, with_ids=ids)
        count += 1
    if text is not None and not count:
        print(f"not found in {split}", file=sys.stderr)
        sys.exit(1)


def _excerpts(
    data: "TokenDataset",
    doc: int | None,
    tokens: str | None,
    step: int | None,
    text: str | None,
    limit: int | None,
    order: dict[str, Any],
) -> "Iterator[Excerpt]":
    from tokenmill.batches.loader import BatchLoader
    from tokenmill.look.find_text import find
    from tokenmill.look.show import MAX_TOKENS, show_document, show_step, show_tokens

    if text is not None:
        for match in islice(find(data, text), limit or 10):
            start, stop = max(0, match.start - AROUND), min(match.stop + AROUND, data.num_tokens)
            title = f"found at token {match.start:,}"
            yield show_tokens(data, start, stop, title=title)
    elif step is not None:
        row = order.pop("row")
        loader = BatchLoader(data, prefetch=0, **order)
        yield from show_step(loader, step, row=row, limit=limit or MAX_TOKENS)
    elif tokens is not None:
        yield show_tokens(data, *_range(tokens, data.num_tokens), limit=limit or MAX_TOKENS)
    elif doc is not None or data.knows_documents:
        yield show_document(data, doc or 0, limit=limit or MAX_TOKENS)
    else:
        yield show_tokens(data, 0, data.num_tokens, limit=limit or 500)


def _range(text: str, num_tokens: int) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([\d_,]*)\s*:\s*([\d_,]*)\s*", text)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is not a range such as 1000:1100", param_hint="--tokens"
        )
    first, last = (re.sub(r"[_,]", "", part) for part in match.groups())
    return int(first or 0), int(last or num_tokens)


def _print(excerpt: "Excerpt", *, plain: bool, with_ids: bool) -> None:
    from tokenmill.look.shown_tokens import render, visible

    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(
        f"{'' if plain else '--- '}{excerpt.title}  [{excerpt.place}]",
        file=sys.stderr if plain else sys.stdout,
    )
    if plain:
        print(visible(b"".join(piece.data for piece in excerpt.pieces if not piece.special)))
    else:
        print(render(excerpt.pieces, color=color, with_ids=with_ids))
    if excerpt.left_out:
        print(f"... {excerpt.left_out:,} more tokens (--limit)", file=sys.stderr)
