"""`tokenmill forget`: overwrite documents of a dataset, and certify it."""

from collections.abc import Iterator
from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import value
from tokenmill.cli.outcome import Outcome, OutcomeCommand


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value("--ids", "FILE", "File with an id per line, or SPLIT:NUMBER")
@value("--where", "SQL", "The documents for which this is true, by their facts")
@value("--run", "RUN", "Folder of a run; which steps trained on them?", multiple=True)
@value("--cache_dir", "DIR", "Cache folder, if not the user's")
def forget(path: str, run: tuple[str, ...], **options: Any) -> Outcome:
    """Overwrite documents of the dataset at PATH with end-of-text ids that are no targets.

    Every other token keeps its place, so that runs resume with the same order. PATH/forgotten.json
    certifies what was forgotten; `tokenmill verify --full` proves that nothing else has changed.
    Killed at any moment, the same command does the rest.

    \b
    Examples:
        tokenmill forget data/corpus --ids requests.txt --run runs/gpt
        tokenmill forget data/corpus --where "url LIKE 'https://example.org/%'"
    """
    from tokenmill.forgetting import forget

    certificate = forget(path, runs=run, **options)
    asked = sum(map(len, certificate.documents.values()))
    overwritten = plural(certificate.num_tokens, "token")
    notes = [
        f"forgot {certificate.num_new:,} of {plural(asked, 'document')} ({overwritten}); the "
        "others were forgotten before"
        if certificate.num_new < asked
        else f"forgot {plural(asked, 'document')} ({overwritten})",
        f"removed {plural(certificate.num_cached, 'file')} from the cache",
        f"Wrote {certificate.path}",
    ]
    lines = [line for each in certificate.runs for line in _lines_of(each)]
    return Outcome(certificate.to_json(), results=lines, notes=notes)


def _lines_of(run: dict[str, Any]) -> Iterator[str]:
    steps = ", ".join(f"{step:,}" for step in run["steps"])
    yield f"{run['run']} trained on them in {f'step {steps}' if steps else 'no step'}"
    if run["checkpoints"]:
        yield f"  checkpoints that had: {', '.join(run['checkpoints'])}"
    if run["replay_from"]:
        yield f"  replay from {run['replay_from']}: write its name to checkpoints/latest, resume"
    elif run["steps"]:
        yield "  no checkpoint is from before these: train from the start"
    for name in run["not_searched"]:
        yield f"  {name} was not searched: its data has no index of documents"
