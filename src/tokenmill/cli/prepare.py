"""`tokenmill prepare` and `pretokenize`: tokenize text files into shards, or one into one .npy."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.human import human_bytes, human_rate, plural
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.system import num_cores
from tokenmill.cli import flags
from tokenmill.cli.flags import GroupWithMain, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, command_progress, in_flags
from tokenmill.preparation.planning.settings import Settings

if TYPE_CHECKING:
    from tokenmill.preparation.pretokenize import Pretokenized
    from tokenmill.preparation.stages.accounts import Summary

WHERE = {"section": "Input and output"}
RUNNING = {"section": "Running"}
ENGINES = ("local", "ray")
DTYPES = ("uint16", "uint32", "int32", "int64")  # of `pretokenize`
BYTES_PER_WORKER = 16 << 20  # less is done before another process is there
CLEAN_ALIAS = "--normalize/--no_normalize"
no_dedup_switch = click.option("--no_dedup", "dedup", flag_value="none", hidden=True)
# What `prepare` and `prepare plan` both take.
preparation_options = flags.together(
    click.argument("inputs", nargs=-1, metavar="INPUT..."),
    value("--input_files", "INPUT", "The same as INPUT", multiple=True, **WHERE),
    value(
        "--val_input",
        "[NAME=]FILE...",
        "Hold out all files up to the next flag, as the split val, or val_NAME",
        expose_value=False,  # TakesValInput reads it
        **WHERE,
    ),
    value("-o --out_dir", "OUT", "Folder of the dataset", required=True, **WHERE),
    switch("--append", "Add to the dataset in OUT", **WHERE),
    switch("--overwrite", "Replace the dataset in OUT", **WHERE),
    value(
        "--work_dir",
        "DIR",
        "Folder or address to work at, when OUT is s3://, gs:// or az://",
        **WHERE,
    ),
    flags.settings_flags(Settings, tokenizer="--tokenization", clean=CLEAN_ALIAS),
    no_dedup_switch,
    flags.work_options,
    flags.scratch_options,
)


class TakesValInput(flags.SectionedCommand):
    """A command whose --val_input and --decontaminate take all words up to the next flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest, groups = split_val_input(args)
        rest, test_sets = split_test_sets(rest)
        unused = super().parse_args(ctx, rest)
        ctx.params["val_input"] = groups
        if test_sets:
            ctx.params["decontaminate"] = test_sets
        return unused


def split_val_input(args: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return all other words; and the words of each `--val_input`, up to the next flag."""
    rest: list[str] = []
    groups: list[list[str]] = []
    current = rest
    for at, word in enumerate(args):
        if word == "--":
            return rest + list(args[at:]), groups
        name, equals, first = word.partition("=")
        if name.replace("-", "_") == "__val_input":
            current = [first] if equals else []
            groups.append(current)
            continue
        if word.startswith("-") and word != "-":
            current = rest
        current.append(word)
    return rest, groups


def split_test_sets(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return all other words; and those after `--decontaminate`, which a shell made of a glob."""
    rest: list[str] = []
    files: list[str] = []
    current = rest
    for word in args:
        name, equals, first = word.partition("=")
        if name == "--decontaminate":
            current = files
            files += [first] if equals else []
            continue
        if word.startswith("-") and word != "-":
            current = rest
        current.append(word)
    return rest, files


@click.command(cls=TakesValInput)
@preparation_options
@flags.workers_option
@value("--engine", "KIND", "Here or on a cluster", choices=ENGINES, default="local", **RUNNING)
@value("--ray_address", "ADDRESS", "The cluster: auto, or HOST:PORT", **RUNNING)
@switch("--estimate", "Read about 1 %, print what to expect, write nothing")
def run_command(out_dir: str, estimate: bool, **options: Any) -> Outcome:
    """Tokenize text files into a new dataset at OUT.

    INPUT may be files, folders or quoted globs: .txt, .jsonl, .csv, .parquet, .arrow, also .gz,
    .zst, .xz and .bz2, also at hf://datasets/OWNER/NAME; and - for standard input, alone or among
    them. A preparation that was stopped resumes when the same command is given again.

    The text is left as it is: the tokens are those of the bytes that are read. --clean and --dedup
    change that.

    \b
    Examples:
        tokenmill prepare corpus/*.jsonl -o data/corpus
        tokenmill prepare 'crawl/**/*.parquet' -o data/crawl --tokenizer ./tokenizer.json \\
            --text_field body --dedup documents --workers 16
        tokenmill prepare book.txt -o data/book --tokenizer bytes
        tokenmill prepare corpus/ -o data/corpus --val_input held/*.txt --val_input code=held/*.py
    """
    if not estimate:
        start_workers([*options["inputs"], *options["input_files"]], flags.given(options))
    inputs = take_inputs(options)
    if estimate:
        from tokenmill.preparation.estimate import estimate as make_estimate

        known = {"workers", "val_input", *(field.name for field in fields(Settings))}
        given = {name: value for name, value in options.items() if name in known}
        found = make_estimate(inputs, **flags.as_keywords(given))
        return Outcome(found.to_json(), results=[found.to_text()])
    from tokenmill.preparation.prepare import prepare

    with command_progress() as progress:
        summary = prepare(inputs, out_dir, **flags.as_keywords(options, progress))
    return Outcome(summary.to_json(), notes=summary_lines(summary))


def start_workers(inputs: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Start workers while this process imports the rest, where there is enough text for them."""
    if settings.get("engine", "local") != "local" or "max_ram" in settings:
        return
    size = sum(os.path.getsize(path) for path in inputs if os.path.isfile(path))
    workers = settings.get("workers") or num_cores()
    if (number := min(workers, size // BYTES_PER_WORKER)) > 1:
        from tokenmill.executors.local import start_early

        start_early(number, "tokenmill.preparation.stages.encode")


def take_inputs(options: dict[str, Any]) -> list[str]:
    """Take the inputs out of the options, and read `val_input`."""
    from tokenmill.preparation.planning.inputs import Paths
    from tokenmill.preparation.planning.val_inputs import read_words

    inputs = Paths([*options.pop("inputs"), *options.pop("input_files")])
    groups = options["val_input"]
    if [] in groups:
        raise click.UsageError("--val_input takes a file, a folder or a glob")
    options["val_input"] = read_words(groups) if groups else None
    if not inputs and not (groups and options["append"]):
        what = "name files, folders, globs, or - for stdin"
        if groups:
            what = "all words after --val_input are held out: name the inputs to train on before it"
        raise click.UsageError(f"no input was given; {what}")
    return inputs


def summary_lines(summary: "Summary") -> Iterator[str]:
    """Yield the outcome of a preparation, line by line."""
    if added := summary.added:
        yield f"  added     {_documents(added)}, {plural(added['tokens_written'], 'token')}"
    yield f"  {'in all' if added else 'done':<10}{_documents(vars(summary))}"
    yield from (f"  bad       {place}" for place in summary.bad_input)
    yield from (f"  cleaned   {line}" for line in summary.changed_lines)
    if summary.lines_dropped:
        such = f", such as {', '.join(summary.repeated_lines)}" if summary.repeated_lines else ""
        yield f"  lines     dropped {summary.lines_dropped:,} seen before{such}"
    splits = {
        "train": {"tokens": summary.train_tokens, "shards": summary.train_shards},
        "val": {"tokens": summary.val_tokens, "shards": summary.val_shards},
        **summary.named_splits,
    }
    counts = ", ".join(
        f"{split['tokens']:,} {name} in {plural(split['shards'], 'shard')}"
        for name, split in splits.items()
    )
    item_size = 2 if summary.dtype == "uint16" else 4
    size = human_bytes(sum(split["tokens"] for split in splits.values()) * item_size)
    yield f"  tokens    {counts}, {summary.dtype}, {size}"
    yield from (f"  note      {in_flags(note)}" for note in summary.notes)
    if summary.already_there:
        yield f"Nothing to write to {summary.out_dir}"
    else:
        read = summary.bytes_read
        rate = f" ({human_rate(read, summary.seconds)})" if read else ""
        yield f"Wrote {summary.out_dir}/dataset_metadata.json in {summary.seconds:.1f} s{rate}"


def _documents(accounts: Mapping[str, Any]) -> str:
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in sorted(accounts["dropped"].items()))
    kept = f"{accounts['documents_written']:,}" + (f" (dropped: {dropped})" if dropped else "")
    return f"read {plural(accounts['documents_in'], 'document')}, kept {kept}"


@click.command(cls=OutcomeCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE.txt...")
@flags.settings_flags(
    Settings,
    only=("tokenizer", "end_of_text", "token_pattern", "separator"),
    tokenizer="--tokenization",
)
@value("--dtype", "KIND", "Stored type; by default by vocabulary", choices=DTYPES)
@switch("--force", "Write even if the .npy of this text is there")
def pretokenize(files: tuple[str, ...], **options: Any) -> Outcome:
    """Tokenize each text into one .npy array beside it: FILE.txt becomes FILE.npy.

    The text is taken as it is: one document without an end-of-text id; with --separator, documents
    with one each. A .npy that was made from this text is kept. A run that was stopped resumes when
    the same command is given again.

    \b
    Examples:
      tokenmill pretokenize corpus.txt
      tokenmill pretokenize train.txt val.txt --dtype int32
      tokenmill pretokenize stories.txt --separator '<|endoftext|>'
    """
    from tokenmill.preparation.pretokenize import pretokenize
    from tokenmill.tokens.load_tokenizer import load

    pattern = options.pop("token_pattern")
    end = options.pop("end_of_text")
    if pattern is not None or end is not None:
        name = options["tokenizer"] or "gpt2"
        options["tokenizer"] = load(name, pattern=pattern, end_of_text=end)
    started = time.monotonic()
    with interrupt_on_signals(), command_progress() as progress:
        arrays = pretokenize(files, progress=progress, **flags.given(options))
    entries = [{**asdict(a), "characters_per_token": a.characters_per_token} for a in arrays]
    return Outcome(
        {"files": entries, "seconds": round(time.monotonic() - started, 3)},
        notes=[line for array in arrays for line in _array_lines(array)],
    )


def _array_lines(array: "Pretokenized") -> Iterator[str]:
    if array.kept:
        held = f"{array.tokens:,} tokens, {array.dtype}"
        yield f"Kept {array.npy}: it was made from {array.text} ({held}); --force writes it again"
        return
    yield f"Wrote {array.npy}"
    yield f"  characters            {array.characters:,}"
    yield f"  tokens                {array.tokens:,} of {array.tokenizer}"
    if array.documents:
        yield f"  documents             {array.documents:,}"
    yield f"  characters per token  {array.characters_per_token:.2f}"
    yield f"  size                  {human_bytes(array.bytes)}, {array.dtype}"


prepare = GroupWithMain(
    run_command,
    "prepare_jobs",
    {
        "plan": "Write the plan, for jobs that share the work",
        "work": "Do one part of what can be done now",
        "status": "Print what is done and what is missing",
        "finish": "Do the rest, write the manifest",
        "slurm": "Print a script that submits all of these",
    },
)
