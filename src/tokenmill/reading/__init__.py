"""Anybody's token files as arrays of ids: where they are, reading them, where documents end.

Nothing here knows a format: `formats/` describes files as `TokenFile`, this room reads them.

 token_file.py        one file of ids as a format describes it, and what can be wrong with it
 shard_reader.py      the tokens of many files, mapped or read when first asked for
 span_reader.py       spans become rows: out of mapped files, by reading, of several datasets
 token_axis.py        many files as one axis: by position, by slice, by document; its fingerprint
 frames.py            compressed bytes in frames that can be read one by one
 shard_cache.py       blocks and files from a store, or unpacked, in a folder of bounded size
 block_reader.py      files that are read in blocks of 1 MiB: compressed ones, those in a store
 document_index.py    where documents end: from an index, or by scanning for an id
 length_index.py      documents sorted by length, as a file in the user's cache folder
"""
