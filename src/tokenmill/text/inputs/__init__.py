"""Input files: found, recognized, and cut into units of work.

sources.py        files, folders, globs and objects in a bucket become one ordered list of sources
file_kind.py      text, JSON lines, CSV or parquet, and how it is compressed
open_input.py     a source, and the only place where input files are opened and read
decompress.py     gzip, zstd, xz and bzip2 as streams that never end early silently
units.py          sources are cut into units; the footers of parquet files
"""
