"""`tokenmill edits`: the edits of a run; and a way to ask for one, also while it trains."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.address import is_remote
from tokenmill.cli.flags import SectionedCommand, position, value
from tokenmill.cli.outcome import Outcome, prints_outcome

if TYPE_CHECKING:
    from tokenmill.edits.edit_values import Edit

ASK = {"section": "Ask for an edit"}
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@click.command(cls=SectionedCommand)
@click.argument("run")
@value("--reweight", "W", "Other weights, of all sources: `web=0.7,code=0.3`", **ASK)
@value("--skip", "A-B", "Skip these steps, both included: `120-129`", **ASK)
@value("--ban", "N", "Documents not to train on: `17,20-29`, or a file of numbers", **ASK)
@value("--ban_tokens", "A-B", "Tokens not to train on, both included", **ASK)
@value("--source", "NAME", "With --ban and --ban_tokens: their source", **ASK)
@value("--cap", "C", "Most epochs of a source: `wiki=4`", **ASK)
@value("--then", "WHAT", "After --cap", default="share", choices=("share", "end"), **ASK)
@value("--add", "NAME=DIR", "Another source; needs --weights", **ASK)
@value("--weights", "W", "With --add: weights of all sources, as in --reweight", **ASK)
@value("--at", "STEP", "From this step on  [default: the next one]", type=position, **ASK)
@value("--note", "TEXT", "Who asks, and why", **ASK)
@prints_outcome
def command(run: str, at: int | None, note: str | None, quiet: bool, **flags: Any) -> Outcome:
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
    from tokenmill.train.ask_edits import ask_for, asked_edits, lines_of_edits
    from tokenmill.train.edit_words import what_changes

    wanted = edits_of_flags(**flags)
    if not wanted:
        edits = asked_edits(Path(run)).to_json()
        none = [] if any(edits.values()) else ["no edits"]
        return Outcome(edits, results=lines_of_edits(edits), notes=none)
    requests = [asked.to_json() for asked in ask_for(Path(run), wanted, step=at, note=note)]
    when = "the run takes it when it starts, or at its next checkpoint"
    return Outcome(
        requests, notes=[f"asked for: {what_changes(asked)}; {when}" for asked in requests]
    )


def edits_of_flags(
    *,
    add: str | None = None,
    weights: str | None = None,
    reweight: str | None = None,
    cap: str | None = None,
    then: str = "share",
    skip: str | None = None,
    ban: str | None = None,
    ban_tokens: str | None = None,
    source: str | None = None,
) -> "list[Edit]":
    """Return the edits that the flags ask for."""
    from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip
    from tokenmill.train.named_values import numbers_of, pair_of

    edits: list[Edit] = []
    if add is not None:
        name, path = pair_of(add, "--add", "crawl=data/crawl")
        if weights is None:
            raise ValueError("--add needs the weights of all sources: --weights data=0.5,crawl=0.5")
        path = path if is_remote(path) else os.path.abspath(path)  # the run may be elsewhere
        edits.append(Add(name, path, weights=numbers_of(weights, "--weights")))
    elif weights is not None:
        raise ValueError("--weights goes with --add; --reweight changes the weights of a run")
    if reweight is not None:
        edits.append(Reweight(numbers_of(reweight, "--reweight")))
    if cap is not None:
        edits.append(Cap(numbers_of(cap, "--cap", int), then=then))
    if skip is not None:
        edits.append(Skip(steps=_range(skip, "--skip")))
    if ban is not None:
        edits.append(Ban(documents=_documents(ban), source=source))
    if ban_tokens is not None:
        edits.append(Ban(tokens=_range(ban_tokens, "--ban_tokens"), source=source))
    if source is not None and ban is None and ban_tokens is None:
        raise ValueError("--source goes with --ban and --ban_tokens")
    return edits


def _range(text: str, flag: str) -> tuple[int, int]:
    """120-129, both included, or one number."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{flag} is {text!r}; expected a number, or two: 120-129")
    return int(match[1]), int(match[2] or match[1]) + 1


def _documents(text: str) -> Any:
    """17,20-29 as ranges; anything else is the path of a file with a number in each line."""
    parts = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if all(parts):
        ranges = [_range(part, "--ban") for part in text.split(",")]
        return [(first, stop - 1) for first, stop in ranges]
    if not Path(text).is_file():
        raise ValueError(
            f"--ban is {text!r}; expected numbers of documents such as 17,20-29, or a file of them"
        )
    return os.path.abspath(text)
