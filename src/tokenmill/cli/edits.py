"""`tokenmill edits`: the edits of a run; and a way to ask for one, also while it trains."""

from pathlib import Path
from typing import Any

import click

from tokenmill.cli.flags import Count, SectionedCommand, value
from tokenmill.cli.outcome import Outcome, prints_outcome

ASK = {"section": "Ask for an edit"}


@click.command(cls=SectionedCommand)
@click.argument("run")
@value("--reweight", "W", "Other weights, of all sources: `web=0.7,code=0.3`", **ASK)
@value("--skip", "A-B", "Pass over these steps, both included: `120-129`", **ASK)
@value("--ban", "N", "Documents not to train on: `17,20-29`, or a file of numbers", **ASK)
@value("--ban_tokens", "A-B", "Tokens not to train on, both included", **ASK)
@value("--source", "NAME", "With --ban and --ban_tokens: their source", **ASK)
@value("--cap", "C", "At most so many epochs of a source: `wiki=4`", **ASK)
@value("--then", "WHAT", "After --cap", default="share", choices=("share", "end"), **ASK)
@value("--add", "NAME=DIR", "Another source; needs --weights", **ASK)
@value("--weights", "W", "With --add: weights of all sources, as in --reweight", **ASK)
@value("--at", "STEP", "From this step on  [default: the next one]", type=Count(least=0), **ASK)
@value("--note", "TEXT", "Who asks, and why", **ASK)
@prints_outcome
def command(run: str, at: int | None, note: str | None, quiet: bool, **flags: Any) -> Outcome:
    """Print the edits of RUN, the folder of a run, or ask for one.

    A run takes the edits that were asked for when it starts or resumes, and while it trains at its
    next checkpoint, on all ranks. What it took or refused is in RUN/edits.jsonl.

    \b
    Examples:
        tokenmill edits runs/gpt
        tokenmill edits runs/gpt --skip 120-129 --note "loss spike, seen by Ada"
        tokenmill edits runs/gpt --add crawl=data/crawl --weights data=0.5,crawl=0.5
        tokenmill edits runs/gpt --ban 4711 --source crawl --note "request 12"
    """
    from tokenmill.train.history.ask_edits import ask_for, edits_of_run, lines_of_edits
    from tokenmill.train.history.edit_words import edits_of_flags, what_changes

    wanted = edits_of_flags(**flags)
    if not wanted:
        edits = edits_of_run(Path(run))
        none = [] if any(edits.values()) else ["no edits"]
        return Outcome(edits, results=lines_of_edits(edits), notes=none)
    requests = [each.to_json() for each in ask_for(Path(run), wanted, step=at, note=note)]
    when = "the run takes it when it starts, or at its next checkpoint"
    return Outcome(
        requests, notes=[f"asked for: {what_changes(each)}; {when}" for each in requests]
    )
