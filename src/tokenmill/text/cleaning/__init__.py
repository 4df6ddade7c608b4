"""Texts are cleaned, and what was seen before is found.

clean.py         the seven rules of cleaning
line_work.py     the lines of many texts at once
dedup.py         duplicates: hashes sorted in partitions
clean_chunks.py  chunks cleaned, kept on disk, and without their repeated lines
"""
