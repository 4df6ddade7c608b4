"""The order of a run that was edited: what an edit changes, as arithmetic on numbers.

skips.py            samples that were passed over: sample number <-> place in the order
long_table.py       binary search in a long table, for numbers in no order
banned_tokens.py    ranges of tokens that are not to be trained on, and questions to them
kept_positions.py   the positions of an epoch that are served, where some are passed over
windows_left.py     which windows a ban leaves, and draws in the place of others
rows_left.py        which rows of documents a ban leaves, and what is in them
edited_source.py    one source with bans and new data: index -> epoch and position; and back
"""
