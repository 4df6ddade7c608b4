"""`tokenmill upload`: a dataset to the Hugging Face hub."""

import json

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("repo")
@click.option("--private", is_flag=True, help="Make the repository private, if it is made")
@click.option(
    "--revision", default="main", metavar="BRANCH", show_default=True, help="Branch to push to"
)
@click.option("--message", metavar="TEXT", help="Message of the commit")
@click.option("--no-sample", is_flag=True, help="Leave out the decoded sample for the hub's viewer")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only")
def command(
    folder: str,
    repo: str,
    private: bool,
    revision: str,
    message: str | None,
    no_sample: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Push the dataset in DIR to the dataset repository REPO.

    Every byte is checked against the manifest before it leaves. The shards, the manifest, the card
    and a decoded sample become one commit; log in with `hf auth login`, or set HF_TOKEN.

    \b
    Examples:
        tokenmill upload data/corpus ann/corpus
        tokenmill upload data/corpus ann/corpus --private --revision v2
    """
    from tokenmill.hub import upload

    done = upload(
        folder,
        repo,
        private=private,
        revision=revision,
        message=message,
        sample=not no_sample,
        note=(lambda text: None) if quiet else lambda text: click.echo(text, err=True),
    )
    if as_json:
        print(json.dumps(done.as_dict(), indent=2))
    elif not quiet:
        click.echo(f"{done.url}: {len(done.files)} files at {done.commit[:12]}", err=True)
