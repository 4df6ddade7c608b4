"""`tokenmill when`: the steps and checkpoints of a run that had trained on a document."""

from pathlib import Path

import click

from tokenmill.base.human import plural
from tokenmill.base.suggest import one_of
from tokenmill.cli.flags import count, position, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand


@click.command(cls=OutcomeCommand)
@click.argument("path")
@value("--run", "RUN", "Folder of the run, such as runs/gpt", required=True)
@value("--document", "N", "Document number N, from 0", type=position)
@value("--text", "TEXT", "The documents that contain TEXT")
@value("--source", "NAME", "Source of the run, where two of them have the same data")
@value("--limit", "N", "At most so many documents that contain TEXT", default=10, type=count)
def command(
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
    loader, checkpoints, left_out = open_run(Path(run), path)
    source = source or source_at(loader, path)
    one_of("source", source, loader.names)
    documents = [] if document is None else [document]
    if text is not None:
        documents = documents_with(loader.datasets[loader.names.index(source)], text)
    found = [
        trained_on(loader, each, source=source, checkpoints=checkpoints, left_out=left_out)
        for each in documents[:limit]
    ]
    shown = f"; the first {limit:,} are shown (--limit)" if len(documents) > limit else ""
    count = f"{plural(len(documents), 'document')} of {path} with this text{shown}"
    return Outcome(
        {"found": len(documents), "documents": [each.to_json() for each in found]},
        results=[line for each in found for line in each.lines()],
        notes=[] if text is None else [count],
        exit_code=0 if documents else 1,
    )
