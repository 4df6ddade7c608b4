"""Edits of a run while it lives: from this sample on, that changes. docs/edits.md is the page.

edit_values.py      the values: Reweight, Skip, Ban, Cap, Add; checked when made, JSON and back
named_files.py      what an edit names outside of the state: data that is added, files of bans
edit_record.py      the list of edits: each with its sample, note and fingerprint
edited_run.py       a run and its edits; those of a saved state, whose past is proven
find_banned.py      the tokens that a ban means, in the data of its source
apply_edits.py      what each edit does to the order
resumed_run.py      the run of a saved state, accepted where its past is the same
edit_state.py       the same edits for a saved state
skips.py            samples that were skipped: sample number <-> place in the order
long_table.py       binary search in a long table, for numbers in no order
banned_tokens.py    ranges of tokens that are not to be trained on, and questions to them
kept_positions.py   the positions of an epoch that are served, where some are skipped
windows_left.py     which windows a ban leaves, and draws in the place of others
rows_left.py        which rows of documents a ban leaves, and what is in them
edited_source.py    one source with bans and new data: index -> epoch and position; and back
banned_places.py    where banned tokens are in rows
usage.py            how often each document of a run was trained on
"""
