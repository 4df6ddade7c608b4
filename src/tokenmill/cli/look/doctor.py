"""`tokenmill doctor`: what is wrong with token files, by name, and the fix."""

from dataclasses import replace
from typing import Any

import click

from tokenmill.cli.flags import given, open_options, sample_option
from tokenmill.cli.hints import in_flags
from tokenmill.cli.outcome import Outcome, prints_outcome


@click.command()
@click.argument("path")
@open_options
@sample_option
@prints_outcome
def command(path: str, sample: int, quiet: bool, **options: Any) -> Outcome:
    """Look for the known traps of token files at PATH, in seconds, whatever its size.

    Headers read as tokens, a wrong dtype or byte order, ids beyond the vocabulary, tails of zeros,
    missing or doubled end-of-text, cut or repeated shards, documents never shuffled, text that is
    in train and val, the wrong tokenizer. Prints nothing when nothing is wrong. Exit code 0: no
    faults; 10: no token data here; 12: faults.

    \b
    Examples:
        tokenmill doctor data/corpus
        tokenmill doctor train.bin --dtype uint16 --tokenizer gpt2
    """
    from tokenmill.base.human import one_line
    from tokenmill.look.doctor import examine

    result = examine(path, budget=sample, **given(options))
    traps = [replace(found, fix=in_flags(found.fix)) for found in result.findings]
    return Outcome(
        result.to_json(),
        results=[one_line(line) for found in traps for line in str(found).splitlines()],
        notes=[f"note: no file states the {n}; {v} fits" for n, v in result.assumed.items()],
        exit_code=12 if result.has_faults else 0,
    )
