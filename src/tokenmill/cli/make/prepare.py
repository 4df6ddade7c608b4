"""`tokenmill prepare`: tokenize text files into shards."""

from typing import Any

import click
import orjson

from tokenmill.cli.make.prepare_jobs import JOBS_HELP, WithJobs, given_settings, show_progress, tell
from tokenmill.preparation.budget.estimate import estimate as make_estimate
from tokenmill.preparation.prepare import prepare


@click.command(cls=WithJobs, short_help="Tokenize text files into shards", epilog=JOBS_HELP)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--input-files", "input_files", multiple=True, help="The same as INPUT.")
@click.option("-o", "--out-dir", required=True, metavar="OUT", help="Folder of the new dataset.")
@click.option(
    "--tokenizer",
    "--tokenization",
    default="gpt2",
    show_default=True,
    metavar="NAME",
    help="gpt2, bytes, chars, a tokenizer.json, a .tiktoken or SentencePiece .model file.",
)
@click.option("--end-of-text", metavar="TOKEN", help="End-of-text token, where the file has none.")
@click.option(
    "--token-pattern", metavar="NAME", help="Pattern of a .tiktoken file: gpt2, cl100k..."
)
@click.option("--dtype", type=click.Choice(["uint16", "uint32"]), help="Width of an id on disk.")
@click.option(
    "--documents",
    type=click.Choice(["file", "line", "paragraph"]),
    default="file",
    show_default=True,
    help="What is one document in a text file.",
)
@click.option("--separator", metavar="TEXT", help="Cut text files into documents at this text.")
@click.option(
    "--text-field",
    default="text",
    show_default=True,
    metavar="NAME",
    help="Field or column that holds the text in .jsonl, .csv and .parquet.",
)
@click.option("--no-normalize", is_flag=True, help="Do not clean: not one byte changes.")
@click.option(
    "--dedup",
    type=click.Choice(["lines", "documents", "none"]),
    default="lines",
    show_default=True,
    help="Drop what was seen before, across all inputs.",
)
@click.option("--no-dedup", is_flag=True, help="The same as --dedup none.")
@click.option(
    "--dedup-min-chars",
    type=int,
    default=16,
    show_default=True,
    metavar="N",
    help="Shorter lines are never duplicates.",
)
@click.option(
    "--on-bad-input",
    type=click.Choice(["error", "skip", "replace"]),
    default="error",
    show_default=True,
    help="What to do about text that cannot be read.",
)
@click.option(
    "--val-fraction",
    type=float,
    default=0.1,
    show_default=True,
    metavar="F",
    help="Share of the documents held out as val/; 0 for none.",
)
@click.option(
    "--tokens-per-shard",
    type=int,
    default=10_000_000,
    show_default=True,
    metavar="N",
    help="Tokens in each shard.",
)
@click.option("--workers", type=int, metavar="N", help="Processes.  [default: number of cores]")
@click.option("--max-ram", metavar="SIZE", help="Memory to stay within, such as 4G.")
@click.option("--append", is_flag=True, help="Add to the dataset in OUT.")
@click.option("--overwrite", is_flag=True, help="Replace the dataset in OUT.")
@click.option("--break-lock", is_flag=True, help="Take OUT over from a machine that is gone.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Run on this machine or on a Ray cluster.",
)
@click.option("--ray-address", metavar="ADDRESS", help="The cluster: auto, or HOST:PORT.")
@click.option("--work-dir", metavar="DIR", help="Where to work when OUT is s3://bucket/...")
@click.option(
    "--estimate", is_flag=True, help="Read about 1 %, print what to expect, write nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Tokenize text files into a new dataset at OUT.

    INPUT may be files, folders or quoted globs: .txt, .jsonl, .csv, .parquet, also .gz, .zst, .xz
    and .bz2; and - for standard input, alone or among them. A preparation that was
    stopped goes on when the same command is given again.

    \b
    Examples:
        tokenmill prepare corpus/*.jsonl -o data/corpus
        tokenmill prepare 'crawl/**/*.parquet' -o data/crawl --tokenizer ./tokenizer.json \\
            --text_field body --dedup documents --workers 16
        tokenmill prepare book.txt -o data/book --tokenizer bytes
    """
    inputs = [*options.pop("inputs"), *options.pop("input_files")]
    if not inputs:
        raise click.UsageError("no input was given; name files, folders, globs, or - for stdin")
    out_dir, as_json, quiet = (options.pop(name) for name in ("out_dir", "as_json", "quiet"))
    only_estimate = options.pop("estimate")
    run = {
        name: options.pop(name)
        for name in (
            *("workers", "max_ram", "append", "overwrite", "break_lock"),
            *("engine", "ray_address", "work_dir"),
        )
    }
    settings = given_settings(ctx, options)
    if only_estimate:
        found = make_estimate(inputs, workers=run["workers"], **settings)
        print(orjson.dumps(found.to_json()).decode() if as_json else found.to_text())
        return
    with show_progress(quiet) as progress:
        outcome = prepare(inputs, out_dir, progress=progress, **run, **settings)
    if as_json:
        print(orjson.dumps(outcome.to_json()).decode())
    elif not quiet:
        tell(outcome)
