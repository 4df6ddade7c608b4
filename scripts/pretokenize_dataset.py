"""`python scripts/pretokenize_dataset.py FILE.txt...` is `tokenmill pretokenize FILE.txt...`."""

import sys

from tokenmill.cli import main

if __name__ == "__main__":
    main(["pretokenize", *sys.argv[1:]])
