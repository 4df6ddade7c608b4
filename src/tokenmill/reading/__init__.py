"""Anybody's token files as arrays of ids: where they are, reading them, where documents end.

Nothing here knows a format: `formats/` describes files (token_file.py), shard_reader.py reads them,
span_reader.py makes rows of them.
"""
