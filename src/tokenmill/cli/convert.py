"""`tokenmill convert` and `retokenize`: a dataset in another format, or with another tokenizer."""

from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli import flags
from tokenmill.cli.flags import switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, command_progress
from tokenmill.cli.prepare import summary_lines
from tokenmill.preparation.planning.settings import Settings

TAKEN = (
    "tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype", "tokens_per_shard",
    "compress", "on_bad_input",
)  # fmt: skip


@click.command(cls=OutcomeCommand)
@click.argument("src")
@click.argument("dst")
@value("--to", "FORMAT", "Format to write")
@value("--compress", "KIND", "Compress the shards (of tokenmill): zstd or zstd:LEVEL, 1 to 22")
@switch("--decompress", "Write plain shards (of tokenmill)")
@value("--to_dtype", "TYPE", "Type of the written ids  [default: by vocabulary]")
@value("--tokens_per_shard", "N", "Tokens in each written shard", type=int)
@switch("--add_end_of_text", "Write the end-of-text id where a document lacks it")
@switch("--allow_lost_documents", "Convert even if some ends of documents are lost")
@switch("--overwrite", "Replace DST, once the new data is verified")
@value("--columns", "NAMES", "Columns to keep, such as loss,weights; or none  [default: all]")
@flags.open_options
def convert(src: str, dst: str, **options: Any) -> Outcome:
    """Copy the token data at SRC to the new folder DST in another project's format.

    FORMAT is one of: tokenmill, llmc, nanogpt, npy, megatron, datatrove, dolma, mds, litdata.
    SRC may be of any of them, and of any format that `tokenmill inspect` reads. What is written
    is read back and compared before DST appears; what would be lost is refused. With --compress
    and --decompress, a dataset of tokenmill stays the same but for its files, and --to may be left
    out.

    \b
    Examples:
        tokenmill convert data/corpus data/megatron --to megatron
        tokenmill convert 'shards/*.bin' data/ours --to tokenmill
        tokenmill convert train.npy data/ours --to tokenmill --tokenizer gpt2
        tokenmill convert data/corpus data/small --compress zstd:9
    """
    from tokenmill.conversion.convert import convert

    if (names := options["columns"]) is not None:
        options["columns"] = [] if names == "none" else names.split(",")
    done = convert(src, dst, **flags.given(options))
    splits = {name: {"tokens": n, "files": files} for name, (n, files) in done.splits.items()}
    lines = [
        f"  {name:<6} {split['tokens']:,} tokens in {plural(split['files'], 'file')}, {done.dtype}"
        for name, split in splits.items()
    ]
    return Outcome(
        {"path": str(done.path), "format": done.format, "dtype": done.dtype, "splits": splits},
        notes=[*lines, f"Wrote {done.path} ({done.format})"],
    )


@click.command(cls=flags.SectionedCommand)
@click.argument("src")
@click.argument("out_dir", metavar="OUT")
@flags.settings_flags(Settings, only=TAKEN)
@flags.workers_option
@flags.work_options
@switch("--overwrite", "Replace the dataset in OUT", section="Running")
def retokenize(src: str, out_dir: str, **options: Any) -> Outcome:
    """Decode the documents of the dataset SRC and encode them again, with another tokenizer.

    Splits stay splits. Every document is decoded once more from its new ids and compared with what
    it was; one that differs ends the command, and nothing is written. What was stopped resumes when
    the same command is given again.

    \b
    Example:
        tokenmill retokenize data/corpus data/corpus-32k --tokenizer tok/
    """
    from tokenmill.preparation.retokenize import retokenize

    if options["tokenizer"] is None:
        raise click.UsageError("the new tokenizer is missing; name it: --tokenizer tok/")
    with command_progress() as progress:
        summary = retokenize(src, out_dir, **flags.as_keywords(options, progress))
    return Outcome(summary.to_json(), notes=summary_lines(summary))
