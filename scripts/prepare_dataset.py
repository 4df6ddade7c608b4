"""`python scripts/prepare_dataset.py` is the command `tokenmill prepare --clean --dedup lines`.

    python scripts/prepare_dataset.py --input_files wiki.txt books.txt --out_dir data/corpus \
        --tokenization gpt2 --tokens_per_shard 10000000

`--no_normalize` leaves the text as it is, `--no_dedup` keeps repeated lines.
"""

import sys

from tokenmill.cli import main

# Of flags that say different things, the last one counts.
DEFAULTS = ["--clean", "--dedup", "lines"]

if __name__ == "__main__":
    main(["prepare", *DEFAULTS, *sys.argv[1:]])
