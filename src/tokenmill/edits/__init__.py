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
token_ranges.py     ranges of tokens, and which parts of rows are in them
grown_source.py     one source whose data has grown: sample -> epoch and order; and back
source_bans.py      the bans of one source, by the samples from which they hold
ban_mask.py         banned targets of batches are masked
edited_order.py     the order of an edited run: another order with skips, an end and bans
usage.py            how often each document of a run was trained on
"""

from tokenmill.edits.edit_state import edit_state
from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip

__all__ = ["Add", "Ban", "Cap", "Reweight", "Skip", "edit_state"]
