"""`tokenmill forget`: overwrite documents of a dataset, and certify it."""

from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import value
from tokenmill.cli.outcome import Outcome, OutcomeCommand


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value("--ids", "FILE", "File with the id of a document per line, as its facts have it")
@value("--where", "SQL", "The documents for which this is true, by their facts")
@value("--run", "RUN", "Folder of a run: say which steps trained on them", multiple=True)
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

    done = forget(path, runs=run, **options)
    lines = []
    for each in done["runs"]:
        steps = ", ".join(f"{step:,}" for step in each["steps"]) or "none"
        lines.append(f"{each['run']}: steps that trained on them: {steps}")
        lines.append(f"  checkpoints that had: {', '.join(each['checkpoints']) or 'none'}")
        lines += [f"  replay from: {each['replay_from']}"] if each["replay_from"] else []
    count = sum(map(len, done["documents"].values()))
    return Outcome(done, results=lines, notes=[f"forgot {plural(count, 'document')} of {path}"])
