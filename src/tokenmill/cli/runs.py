"""`tokenmill edits` and `when`: the edits of a run, and when it trained on a document."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.address import is_remote
from tokenmill.base.human import plural
from tokenmill.base.suggest import one_of
from tokenmill.cli.flags import count, position, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand
from tokenmill.train.config import WEIGHTS, named_values, number, number_ranges

if TYPE_CHECKING:
    from tokenmill.edits.edit_values import Edit


@click.command(cls=OutcomeCommand)
@click.argument("run")
@value("--reweight", "W", "Other weights, of all sources: `web=0.7,code=0.3`")
@value("--skip", "A-B", "Skip these steps, both included: `120-129`")
@value("--ban", "N", "Documents not to train on: `17,20-29`, or a file of numbers")
@value("--ban_tokens", "A-B", "Tokens not to train on, both included")
@value("--source", "NAME", "With --ban and --ban_tokens: their source")
@value("--cap", "C", "Most epochs of a source: `wiki=4`")
@value("--then", "WHAT", "After --cap", default="share", choices=("share", "end"))
@value("--add", "NAME=DIR", "Another source; needs --weights")
@value("--weights", "W", "With --add: weights of all sources, as in --reweight")
@value("--at", "STEP", "From this step on  [default: the next one]", type=position)
@value("--note", "TEXT", "Who asks, and why")
def edits(run: str, at: int | None, note: str | None, **flags: Any) -> Outcome:
    """Print the edits of RUN, the folder of a run, or ask for one.

    Requests are lines of RUN/edits.jsonl. A run takes them when it starts or resumes, and while it
    trains at its next checkpoint, on all ranks.

    \b
    Examples:
        tokenmill edits runs/gpt
        tokenmill edits runs/gpt --skip 120-129 --note "loss spike, seen by Ada"
        tokenmill edits runs/gpt --add crawl=data/crawl --weights data=0.5,crawl=0.5
        tokenmill edits runs/gpt --ban 4711 --source crawl --note "request 12"
    """
    from tokenmill.train.edits_file import ask_for, edits_of_run, lines_of_edits, words_of

    wanted = _edits(**flags)
    if not wanted:
        edits = edits_of_run(Path(run))
        none = [] if any(edits.values()) else ["no edits"]
        return Outcome(edits, results=lines_of_edits(edits), notes=none)
    requests = ask_for(Path(run), wanted, step=at, note=note)
    when = "the run takes it when it starts, or at its next checkpoint"
    return Outcome(requests, notes=[f"asked for: {words_of(asked)}; {when}" for asked in requests])


def _edits(
    *,
    add: str | None,
    weights: str | None,
    reweight: str | None,
    cap: str | None,
    then: str,
    skip: str | None,
    ban: str | None,
    ban_tokens: str | None,
    source: str | None,
) -> "list[Edit]":
    from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip

    if (add is None) != (weights is None):
        raise ValueError("--add goes with the weights of all sources: --weights data=1,crawl=1")
    if source is not None and ban is None and ban_tokens is None:
        raise ValueError("--source goes with --ban and --ban_tokens")
    edits: list[Edit] = []
    if add is not None and weights is not None:
        name, _, path = add.partition("=")
        if not path:
            raise ValueError(f"--add is {add!r}; expected a name and data: crawl=data/crawl")
        path = path if is_remote(path) else os.path.abspath(path)  # the run may be elsewhere
        edits.append(Add(name, path, weights=named_values(weights, "--weights", WEIGHTS, number)))
    if reweight is not None:
        edits.append(Reweight(named_values(reweight, "--reweight", WEIGHTS, number)))
    if cap is not None:
        edits.append(Cap(named_values(cap, "--cap", "wiki=4", int), then=then))
    if skip is not None:
        edits.append(Skip(steps=_range(skip, "--skip")))
    if ban is not None:
        edits.append(Ban(documents=_documents(ban), source=source))
    if ban_tokens is not None:
        edits.append(Ban(tokens=_range(ban_tokens, "--ban_tokens"), source=source))
    return edits


def _range(text: str, flag: str) -> tuple[int, int]:
    """Return 120-129 as its first number and the one after its last."""
    numbers, *others = number_ranges(text, flag)
    if others:
        raise ValueError(f"{flag} is {text!r}; expected one range, such as 120-129")
    return numbers.start, numbers.stop


def _documents(text: str) -> Any:
    """Return 17,20-29 as ranges; the path of a file with a number per line as it is."""
    if not set(text) <= set("0123456789,- ") and Path(text).exists():
        return os.path.abspath(text)
    return [(numbers.start, numbers.stop - 1) for numbers in number_ranges(text, "--ban")]


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value("--run", "RUN", "Folder of the run, such as runs/gpt", required=True)
@value("--document", "N", "Document number N, from 0", type=position)
@value("--text", "TEXT", "The documents that contain TEXT")
@value("--source", "NAME", "Source of the run, where two of them have the same data")
@value("--limit", "N", "At most N documents that contain TEXT", default=10, type=count)
def when(
    path: str, run: str, document: int | None, text: str | None, source: str | None, limit: int
) -> Outcome:
    """Print when RUN trained on a document of the token data at PATH, one of its sources.

    Exact, across all edits of the run: the order says it, nothing was counted. Steps are those of
    the data, from 0, up to the last checkpoint; of checkpoints, those that are kept are listed.

    \b
    Examples:
        tokenmill when data/corpus --document 4711 --run runs/gpt
        tokenmill when data/corpus --text "never seen again" --run runs/gpt
    """
    from tokenmill.look.trained_on import documents_with, trained_on
    from tokenmill.train.run_data import open_run, source_at

    if (document is None) == (text is None):
        raise click.UsageError("Use one of --document and --text")
    opened = open_run(Path(run), path)
    loader = opened.loader
    source = source or source_at(loader, path)
    one_of("source", source, loader.names)
    documents = [] if document is None else [document]
    if text is not None:
        documents = documents_with(loader.datasets[loader.names.index(source)], text)
    about = {"source": source, **opened._asdict()}
    found = [trained_on(document=each, **about) for each in documents[:limit]]
    shown = f"; the first {limit:,} are shown (--limit)" if len(documents) > limit else ""
    total = f"{plural(len(documents), 'document')} of {path} with this text{shown}"
    return Outcome(
        {"found": len(documents), "documents": [each.to_json() for each in found]},
        results=[line for each in found for line in each.lines()],
        notes=[] if text is None else [total],
        exit_code=0 if documents else 1,
    )
