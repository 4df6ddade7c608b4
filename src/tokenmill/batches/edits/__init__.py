"""Edits of a run while it lives: from this sample on, that changes. Start with edit_values.py.

edit_values.py      the values: Reweight, Skip, Ban, Cap, Add; checked when made, JSON and back
edit_record.py      the list of edits of a run, each with its sample, note and fingerprint
run_data.py         the data of a loader and its order, before and after edits
"""
