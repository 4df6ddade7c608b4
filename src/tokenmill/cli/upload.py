"""`tokenmill upload`: a dataset to the Hugging Face hub."""

from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, note


@click.command(cls=OutcomeCommand)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("repo")
@switch("--private", "Make the repository private, if it is made")
@value("--revision", "BRANCH", "Branch to push to", default="main")
@value("--message", "TEXT", "Message of the commit")
@switch("--no_sample", "Leave out the decoded sample for the hub's viewer")
def command(folder: str, repo: str, no_sample: bool, **options: Any) -> Outcome:
    """Push the dataset in DIR to the dataset repository REPO.

    Every byte is checked against the manifest before it leaves. The shards, the manifest, the card
    and a decoded sample become one commit; log in with `hf auth login`, or set HF_TOKEN.

    \b
    Examples:
        tokenmill upload data/corpus ann/corpus
        tokenmill upload data/corpus ann/corpus --private --revision v2
    """
    from tokenmill.hub import upload

    done = upload(folder, repo, sample=not no_sample, note=note, **options)
    pushed = f"{done.url}: {plural(len(done.files), 'file')} at {done.commit[:12]}"
    return Outcome(done.to_json(), notes=[pushed])
