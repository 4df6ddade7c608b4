"""What every room may use; nothing here knows of text, tokens or datasets.

address.py       is this s3://, gs://, az:// or https://, and the parts of such an address
atomic.py        files that are whole or not there at all, and durable where asked for
hashing.py       regular files (no pipe, no device) read whole, and their hashes
lock.py          one writer at a time; whether a process is alive
retry.py         how long to wait before the next try, and when to give up
signals.py       SIGTERM and Ctrl-C end the work in order
progress.py      bars on a terminal, a line now and then elsewhere, or nothing
human.py         sizes, counts, rates, durations and text as people read them
markup.py        HTML and SVG by construction, plots with axes
suggest.py       what is known, and "did you mean"
signatures.py    keyword arguments that are written down once and shown everywhere
strict_json.py   JSON and file names from strangers
redact.py        no secret in a message
zstd.py          the zstd library of this version of Python
"""
