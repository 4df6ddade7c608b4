"""`tokenmill doctor`: what is wrong with token files, by name, and the fix."""

import json
import sys
from typing import Any

import click

from tokenmill.cli.dataset_options import dataset_options, given

FAULTY = 12


@click.command()
@click.argument("path")
@dataset_options
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=16 << 20,
    metavar="N",
    help="Tokens of each split to look at  [default: 16,777,216]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON")
def command(path: str, sample: int, as_json: bool, **options: Any) -> None:
    """Look for the known traps of token files at PATH, in seconds, whatever its size.

    Headers read as tokens, a wrong dtype or byte order, ids beyond the vocabulary, tails of zeros,
    missing or doubled end-of-text, cut or repeated shards, documents never shuffled, text that is
    in train and val, the wrong tokenizer. Nothing found prints nothing. Exit code 0: no faults;
    10: no token data here; 12: faults.

    \b
    Examples:
        tokenmill doctor data/corpus
        tokenmill doctor train.bin --dtype uint16 --tokenizer gpt2
    """
    from tokenmill.look.doctor import examine
    from tokenmill.look.shown_tokens import one_line

    result = examine(path, budget=sample, **given(**options))
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        for finding in result.findings:
            print("\n".join(one_line(line) for line in str(finding).splitlines()))
        for name, value in result.assumed.items():
            print(f"note: no file states the {name}; {value} fits", file=sys.stderr)
    if result.has_faults:
        sys.exit(FAULTY)
