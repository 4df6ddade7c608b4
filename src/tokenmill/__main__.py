"""`python -m tokenmill` is the command `tokenmill`."""

from tokenmill.cli import main

main()
