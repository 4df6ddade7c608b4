"""The stages of `prepare.py`, one a file: settings, plan, lines, encode, edges, fates, assemble, commit."""
