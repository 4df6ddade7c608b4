"""`tokenmill retokenize`: the documents of a dataset with another tokenizer."""

from typing import Any

import click

from tokenmill.cli import flags
from tokenmill.cli.outcome import Outcome, command_progress
from tokenmill.cli.prepare import summary_lines
from tokenmill.preparation.planning.settings import Settings

TAKEN = (
    "tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype", "tokens_per_shard",
    "compress", "on_bad_input",
)  # fmt: skip


@click.command(cls=flags.SectionedCommand)
@click.argument("src")
@click.argument("out_dir", metavar="OUT")
@flags.settings_flags(Settings, only=TAKEN)
@flags.workers_option
@flags.work_options
@flags.switch("--overwrite", "Replace the dataset in OUT", section="Running")
def command(src: str, out_dir: str, **options: Any) -> Outcome:
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
