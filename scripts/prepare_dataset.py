"""`python scripts/prepare_dataset.py` is the command `tokenmill prepare`.

    python scripts/prepare_dataset.py --input_files wiki.txt books.txt --out_dir data/corpus \
        --tokenization gpt2 --tokens_per_shard 10000000
"""

import sys

from tokenmill.cli import main

if __name__ == "__main__":
    main(["prepare", *sys.argv[1:]])
