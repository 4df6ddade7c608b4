"""Texts are cleaned, and what was seen before is found.

clean.py         the eight rules of cleaning
characters.py    rules 1 to 4: which characters stay
squeeze.py       rules 5 to 7: blanks and newlines
line_work.py     the lines of many texts at once
cache_blocks.py  a large text in blocks, for NumPy
dedup.py         duplicates: hashes sorted in partitions
clean_chunks.py  chunks cleaned, kept on disk, and without their repeated lines
"""
