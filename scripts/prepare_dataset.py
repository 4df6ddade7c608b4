"""`python scripts/prepare_dataset.py` is the command `tokenmill prepare --clean --dedup lines`.

    python scripts/prepare_dataset.py --input_files wiki.txt books.txt --out_dir data/corpus \
        --tokenization gpt2 --tokens_per_shard 10000000

`--no_normalize` leaves the text as it is, `--no_dedup` keeps repeated lines.
"""

import sys

from tokenmill.cli import main

DEFAULTS = {
    ("--clean",): {"--clean", "--normalize", "--no_normalize"},
    ("--dedup", "lines"): {"--dedup", "--no_dedup"},
}
"""Flags that are given where none of the flags after them is."""


def with_defaults(words: list[str]) -> list[str]:
    """The words of the command line, after the defaults of this script."""
    flags = {"--" + word[2:].partition("=")[0].replace("-", "_") for word in words}
    defaults = [own for own, others in DEFAULTS.items() if not flags & others]
    return [word for own in [*defaults, words] for word in own]


if __name__ == "__main__":
    main(["prepare", *with_defaults(sys.argv[1:])])
