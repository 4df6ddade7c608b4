"""`tokenmill download` and `upload`: token shards from and to the Hugging Face hub."""

from typing import Any

import click

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.cli.flags import count, given, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, is_quiet, note


@click.command(cls=OutcomeCommand)
@click.argument("repo_id", required=False, metavar="[REPO]")
@value("-o --out folder", "DIR", "Folder  [default: /tmp/data/NAME]")
@value("--shards", "N", "Training shards, in the order of their names  [default: 3]", type=count)
@value("--pattern patterns", "GLOB", "Take the files that match; may be given again", multiple=True)
@value("--revision", "R", "Branch, tag or commit", default="main")
@value("--workers", "N", "Files fetched at the same time", default=4, type=count)
@value("--deadline", "SECONDS", "Give up after this time, all tries together", type=float)
@switch("--force", "Read again what is here; replace what differs")
@switch("--dry_run", "Only say what would be fetched")
def download(
    patterns: tuple[str, ...], deadline: float | None, dry_run: bool, **options: Any
) -> Outcome:
    """Fetch token shards from the dataset repository REPO.

    Without REPO: FineWeb-Edu in GPT-2 tokens, the first three training shards of 200 MB. They are
    all training shards; when a split is asked for, the last one is held out for validation.

    Every file is checked by size and hash. What is here and right is not fetched again.

    \b
    Examples:
        tokenmill download
        tokenmill download --shards 20 -o data/fineweb-edu
        tokenmill download kjj0/fineweb10B-gpt2 --pattern '*_val_*' --pattern '*_00000?.bin'
        tokenmill download ann/corpus -o data/corpus --revision v1.0
    """
    from tokenmill.hub import Retry, download

    options |= {"patterns": patterns or None, "progress": False if is_quiet() else None}
    with interrupt_on_signals():
        done = download(retry=Retry(deadline=deadline), dry_run=dry_run, **given(options))
    if dry_run:
        files = [("here ", file) for file in done.kept] + [("fetch", f) for f in done.fetched]
        lines = [f"{what}  {human_bytes(file.num_bytes):>9}  {file.path}" for what, file in files]
        return Outcome(done.to_json(), results=lines)
    here = f", {len(done.kept)} were here" if done.kept else ""
    said = f"{done.folder}: fetched {len(done.fetched)}{here}; {done.repo_id} at {done.commit[:12]}"
    return Outcome(done.to_json(), notes=[said])


@click.command(cls=OutcomeCommand)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("repo")
@switch("--private", "Make the repository private, if it is made")
@value("--revision", "BRANCH", "Branch to push to", default="main")
@value("--message", "TEXT", "Message of the commit")
@switch("--no_sample", "Leave out the decoded sample for the hub's viewer")
def upload(folder: str, repo: str, no_sample: bool, **options: Any) -> Outcome:
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
