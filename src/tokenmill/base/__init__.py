"""Tools for every room; nothing here knows of text, tokens or datasets.

address.py       addresses such as s3://bucket/key: recognized, joined and split
atomic.py        files that are whole or not there at all, and durable where asked for
hashing.py       regular files (no pipe, no device) read whole, and their hashes
lock.py          one writer at a time; which processes are alive
retry.py         waiting before the next try, and giving up
signals.py       SIGTERM and Ctrl-C end the work in order
progress.py      bars on a terminal, a line now and then elsewhere, or nothing
human.py         sizes, counts, rates, durations and text, written for reading
markup.py        HTML and SVG by construction, plots with axes
suggest.py       errors that list the known names, and "did you mean"
signatures.py    keyword arguments that are written down once and shown everywhere
strict_json.py   JSON and file names from strangers
zstd.py          the zstd library of this version of Python
"""
