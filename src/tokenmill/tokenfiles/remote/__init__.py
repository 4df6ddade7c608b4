"""Files in a store: a few rows by range, whole files through the cache, each byte once.

remote_file.py    one object, and how its bytes are known to be the right ones
stored_blocks.py  its content in blocks of 1 MiB, unpacked where it is compressed
pieces_ahead.py   blocks and rows that are needed soon, many at once
file_choice.py    which files are worth fetching whole
store_reader.py   the tokens of many such files
"""
