"""`tokenmill prepare`: tokenize text files into shards."""

import sys
from contextlib import nullcontext
from typing import Any

import click
import orjson
from click.core import ParameterSource

from tokenmill.preparation.estimate import estimate as make_estimate
from tokenmill.preparation.progress import Bar, Lines, Silent
from tokenmill.preparation.summary import Summary
from tokenmill.prepare import prepare


@click.command(short_help="Tokenize text files into shards")
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
    "--estimate", is_flag=True, help="Read about 1 %, print what to expect, write nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Tokenize text files into a new dataset at OUT.

    INPUT may be files, folders or quoted globs: .txt, .jsonl, .csv, .parquet, also .gz, .zst, .xz
    and .bz2; or - for standard input. A preparation that was stopped goes on when the same
    command is given again.

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
        for name in ("workers", "max_ram", "append", "overwrite", "break_lock")
    }
    settings = _given_settings(ctx, options)
    if only_estimate:
        found = make_estimate(inputs, workers=run["workers"], **settings)
        print(orjson.dumps(found.to_json()).decode() if as_json else found.to_text())
        return
    progress = Silent() if quiet else Bar() if sys.stderr.isatty() else Lines()
    with progress if isinstance(progress, Bar) else nullcontext():
        outcome = prepare(inputs, out_dir, progress=progress, **run, **settings)
    if as_json:
        print(orjson.dumps(outcome.to_json()).decode())
    elif not quiet:
        _tell(outcome)


def _given_settings(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Only what was really given: the rest is the library's default, or the dataset's own."""
    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if given.pop("no_normalize", False):
        given["normalize"] = False
    if given.pop("no_dedup", False):
        if given.get("dedup", "none") != "none":
            raise click.UsageError(f"--no_dedup and --dedup {given['dedup']} contradict each other")
        given["dedup"] = "none"
    return given


def _tell(outcome: Summary) -> None:
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in sorted(outcome.dropped.items()))
    kept = f"read {outcome.documents_in:,} documents, kept {outcome.documents_written:,}"
    size = 2 if outcome.dtype == "uint16" else 4
    tokens = outcome.train_tokens + outcome.val_tokens
    print(f"  done      {kept}" + (f" (dropped: {dropped})" if dropped else ""), file=sys.stderr)
    if outcome.lines_dropped:
        print(f"  lines     dropped {outcome.lines_dropped:,} seen before", file=sys.stderr)
    print(
        f"  tokens    {outcome.train_tokens:,} train in {outcome.train_shards:,} shards, "
        f"{outcome.val_tokens:,} val in {outcome.val_shards:,}, {outcome.dtype}, "
        f"{tokens * size / 1e6:,.1f} MB",
        file=sys.stderr,
    )
    for note in outcome.notes:
        print(f"  note      {note}", file=sys.stderr)
    rate = outcome.bytes_in / 1e6 / max(outcome.seconds, 1e-9)
    print(
        f"Wrote {outcome.out_dir}/dataset_metadata.json in {outcome.seconds:.1f} s "
        f"({rate:,.0f} MB/s)",
        file=sys.stderr,
    )
