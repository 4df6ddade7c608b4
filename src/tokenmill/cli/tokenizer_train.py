"""`tokenmill tokenizer train`: a byte-level BPE tokenizer from text files."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import human_bytes, human_rate, plural
from tokenmill.base.progress import open_progress
from tokenmill.cli.flags import (
    SectionedCommand,
    as_keywords,
    settings_flags,
    switch,
    value,
    work_options,
    workers_option,
)
from tokenmill.cli.hints import in_flags
from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.cli.prepare import CLEAN_ALIAS, drop_no_dedup, no_dedup_switch
from tokenmill.preparation.planning.settings import Settings

if TYPE_CHECKING:
    from tokenmill.preparation.train_tokenizer import Training

OUTPUT = {"section": "Output"}
VOCABULARY = {"section": "Vocabulary"}


@click.command(cls=SectionedCommand)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@value("-o --out_dir", "OUT", "Folder of the tokenizer", required=True, **OUTPUT)
@switch("--overwrite", "Replace the tokenizer in OUT", **OUTPUT)
@value("--vocab_size", "N", "Ids in all, special ones included", default=32768, **VOCABULARY)
@value(
    "--pattern",
    "NAME",
    "What splits a text: gpt2, cl100k, o200k, llama3, qwen2, qwen3.5, nemotron, deepseek3, "
    "nanochat, or a regular expression",
    default="gpt2",
    **VOCABULARY,
)
@value(
    "--special",
    "TOKEN",
    "A special token; may be given several times  [default: <|endoftext|>]",
    multiple=True,
    **VOCABULARY,
)
@settings_flags(
    Settings,
    only=(
        *("clean", "dedup", "dedup_min_chars"),
        *("document_is", "separator", "text_field", "on_bad_input", "long_line"),
    ),
    clean=CLEAN_ALIAS,
)
@no_dedup_switch
@workers_option
@work_options
@prints_outcome
def train(inputs: tuple[str, ...], out_dir: str, quiet: bool, **options: Any) -> Outcome:
    """Train a byte-level BPE tokenizer on text files; OUT/ then holds tokenizer.json.

    INPUT, cleaning and reading are those of `tokenmill prepare`. A training that was stopped
    resumes when the same command is given again; the result is the same for any number of workers.
    If the different words do not fit into --max_ram, the rarest are left out, and that is said.

    \b
    Examples:
        tokenmill tokenizer train corpus/*.jsonl -o tok/
        tokenmill tokenizer train 'crawl/**/*.parquet' -o tok/ --vocab_size 65536 --pattern o200k \\
            --special '<|endoftext|>' --special '<|user|>' --max_ram 4G
        tokenmill prepare corpus/*.jsonl -o data/corpus --tokenizer tok/
    """
    from tokenmill.preparation.train_tokenizer import train_tokenizer

    drop_no_dedup(options)
    options["special"] = options["special"] or None
    with open_progress(quiet=quiet, words=in_flags) as progress:
        done = train_tokenizer(inputs, out_dir, **as_keywords(options, progress))
    return Outcome({"out_dir": out_dir, **asdict(done)}, notes=_lines(out_dir, done, options))


def _lines(out_dir: str, done: "Training", options: dict[str, Any]) -> Iterator[str]:
    text = f"{plural(done.documents, 'document')}, {human_bytes(done.text_bytes)} of text"
    yield f"  counted   {text}, {done.words:,} different words"
    if done.left_out_words:
        yield (
            f"  left out  {done.left_out_words:,} words that occur fewer than {done.least_count:,} "
            "times, to stay within --max_ram"
        )
    specials = ", ".join(f"{text} {number}" for text, number in done.special_ids.items())
    yield f"  ids       {done.vocab_size:,}; special: {specials or 'none'}"
    if done.vocab_size < options["vocab_size"]:
        yield (
            f"  note      fewer than the {options['vocab_size']:,} asked for: no other pair of "
            "tokens occurs twice in this text"
        )
    if done.already_there:
        yield f"Nothing to write to {out_dir}: it was there already"
    else:
        rate = human_rate(done.text_bytes, done.seconds)
        yield f"Wrote {out_dir.rstrip('/')}/tokenizer.json in {done.seconds:.1f} s ({rate})"
