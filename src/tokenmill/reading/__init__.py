"""Anybody's token files as arrays of ids: where they are, reading them, where documents end.

Nothing here knows a format: `formats/` describes files as `TokenFile`, this room reads them.

 token_file.py        one file of ids as a format describes it, and what can be wrong with it
 shard_reader.py      the tokens of many files, mapped or read when first asked for
 span_reader.py       spans become rows: out of mapped files, by reading, of several datasets
 frames.py            compressed bytes in frames that can be read one by one
 cached_file.py       what the cache is to hold, and how its bytes are known to be the right ones
 shard_cache.py       shards in a bucket, and compressed ones, in a folder of bounded size
 packed_reader.py     compressed files: unpacked into that folder, or frame by frame in place
 token_axis.py        many files as one axis: by position, by slice, by document
 document_index.py    where documents end: from an index, or by scanning for an id
 length_sort.py       documents sorted by length, in bounded memory
 length_index.py      the same as a file in the user's cache folder, built once
 data_fingerprint.py  which data a saved state belongs to
"""
