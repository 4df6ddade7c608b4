"""`tokenmill tokenizer`: train one, show one, compare two."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import human_bytes, human_rate, plural
from tokenmill.cli import flags
from tokenmill.cli.flags import switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, command_progress
from tokenmill.cli.prepare import CLEAN_ALIAS, no_dedup_switch
from tokenmill.preparation.planning.settings import Settings

if TYPE_CHECKING:
    from tokenmill.look.tokenizers import Comparison
    from tokenmill.preparation.train_tokenizer import Training

OUTPUT = {"section": "Output"}
VOCABULARY = {"section": "Vocabulary"}
SHOWN_SPECIALS = 12


@click.group()
def tokenizer() -> None:
    """Train a tokenizer, show what is in one, or compare two on your text."""


@tokenizer.command(cls=flags.SectionedCommand)
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
@flags.settings_flags(
    Settings,
    only=(
        *("clean", "dedup", "dedup_min_chars"),
        *("document_is", "separator", "text_field", "on_bad_input", "long_line"),
    ),
    clean=CLEAN_ALIAS,
)
@no_dedup_switch
@flags.workers_option
@flags.work_options
def train(inputs: tuple[str, ...], out_dir: str, **options: Any) -> Outcome:
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
    from tokenmill.preparation.planning.inputs import Paths
    from tokenmill.preparation.train_tokenizer import train_tokenizer

    options["special"] = options["special"] or None
    with command_progress() as progress:
        done = train_tokenizer(Paths(inputs), out_dir, **flags.as_keywords(options, progress))
    lines = _training_lines(out_dir, done, options["vocab_size"])
    return Outcome({"out_dir": out_dir, **asdict(done)}, notes=lines)


def _training_lines(out_dir: str, done: "Training", vocab_size: int) -> Iterator[str]:
    text = f"{plural(done.documents, 'document')}, {human_bytes(done.text_bytes)} of text"
    yield f"  counted   {text}, {done.words:,} different words"
    if done.left_out_words:
        yield (
            f"  left out  {done.left_out_words:,} words that occur fewer than {done.least_count:,} "
            "times, to stay within --max_ram"
        )
    specials = ", ".join(f"{text} {number}" for text, number in done.special_ids.items())
    yield f"  ids       {done.vocab_size:,}; special: {specials or 'none'}"
    if done.vocab_size < vocab_size:
        yield (
            f"  note      fewer than the {vocab_size:,} asked for: no other pair of "
            "tokens occurs twice in this text"
        )
    if done.already_there:
        yield f"Nothing to write to {out_dir}: it was there already"
    else:
        rate = human_rate(done.text_bytes, done.seconds)
        yield f"Wrote {out_dir.rstrip('/')}/tokenizer.json in {done.seconds:.1f} s ({rate})"


@tokenizer.command(cls=OutcomeCommand)
@click.argument("name")
@flags.settings_flags(Settings, only=("end_of_text", "token_pattern"))
def show(name: str, end_of_text: str | None, token_pattern: str | None) -> Outcome:
    """Print what a tokenizer is: family, engine, ids, special ids, split pattern.

    NAME is what `tokenmill prepare --tokenizer` takes: gpt2, a tokenizer.json or its folder, a
    .tiktoken or SentencePiece .model file.

    \b
    Examples:
        tokenmill tokenizer show gpt2
        tokenmill tokenizer show tok/
    """
    from tokenmill.look.tokenizers import facts_of
    from tokenmill.tokens.load_tokenizer import load

    facts = facts_of(load(name, end_of_text=end_of_text, pattern=token_pattern))
    return Outcome(asdict(facts), results=_fact_lines(facts))


def _fact_lines(facts: Any) -> list[str]:
    specials = [f"{text} {number}" for text, number in facts.special_ids.items()]
    more = len(specials) - SHOWN_SPECIALS
    shown = ", ".join(specials[:SHOWN_SPECIALS]) + (f" and {more:,} more" if more > 0 else "")
    known = {
        "name": facts.name,
        "family": facts.family,
        "engine": facts.engine,
        "ids": f"{facts.vocab_size:,}; the longest token has {plural(facts.longest_token, 'byte')}",
        "end of text": str(facts.end_of_text_id),
        "special ids": shown or "none",
        "pattern": facts.pattern or "none",
        "fingerprint": facts.fingerprint,
    }
    if facts.regex and facts.regex != facts.pattern:
        known["pattern"] += f": {facts.regex}"
    return [f"{label:<12}  {value}" for label, value in known.items()]


@tokenizer.command(cls=OutcomeCommand)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@value("--html", "FILE", "Also write the comparison as a page with plots", type=flags.page_file)
@value("--sample", "SIZE", "Text to compare on", default=8 << 20, type=flags.size)
@flags.settings_flags(Settings, only=("text_field", "separator"))
def compare(
    first: str, second: str, inputs: tuple[str, ...], html: str | None, **options: Any
) -> Outcome:
    """Encode the same text with tokenizers A and B, and print how they differ.

    Bytes a token, tokens a word by script, how many tokens both vocabularies have, and speed. The
    text is taken as it is, without cleaning; of large inputs an evenly spaced sample is read.

    \b
    Examples:
        tokenmill tokenizer compare gpt2 tok/ corpus/*.jsonl
        tokenmill tokenizer compare tok-32k/ tok-64k/ held/ --html compare.html
    """
    from tokenmill.look.tokenizers import compare_tokenizers

    found = compare_tokenizers(first, second, inputs, **flags.given(options))
    notes = []
    if html is not None:
        from tokenmill.base.atomic import write_atomically
        from tokenmill.pages.compare_page import compare_page

        write_atomically(Path(html), compare_page(found).encode("utf-8", "replace"))
        notes.append(f"Wrote {html}")
    return Outcome(asdict(found), results=_comparison_lines(found), notes=notes)


def _comparison_lines(found: "Comparison") -> Iterator[str]:
    text = f"{human_bytes(found.text_bytes)}, {plural(found.words, 'word')}"
    yield f"text  {text}, from {plural(found.files, 'file')} of {human_bytes(found.bytes_in)}"
    yield ""
    first, second = found.tokenizers
    *figures, speed = found.side_by_side()
    rows = [("", first.name, second.name), *figures]
    for script in found.scripts:
        if script.words:
            one, other = (f"{value:.3f}" for value in script.fertility)
            rows.append((f"  {script.script}", one, other))
    rows.append(speed)
    left, middle, right = (max(map(len, column)) for column in zip(*rows, strict=True))
    for label, one, other in rows:
        yield f"{label:<{left}}  {one:>{middle}}  {other:>{right}}"
