"""Edits of a run while it lives: from this sample on, that changes. docs/edits.md is the page.

edit_values.py   the values: Reweight, Skip, Ban, Cap, Add; checked when made, JSON and back
edit_record.py   the list of edits: each with its sample, note and fingerprint
named_files.py   what an edit names outside of the state: data that is added, files of bans
bans.py          the tokens that bans mean, and which of them are in a batch
edited_order.py  the order of an edited run: skips, an end, bans, sources that have grown
edited_run.py    a run and its edits: what each edit does to the order
resumed_run.py   the same for a saved state, whose past is proven
usage.py         how often each source and shard of a run was trained on
"""

from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip
from tokenmill.edits.resumed_run import edit_state

__all__ = ["Add", "Ban", "Cap", "Reweight", "Skip", "edit_state"]
