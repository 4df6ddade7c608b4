"""Edits of a run while it lives: from this sample on, that changes. edits.md is the page.

edit_values.py has the values, edited_run.py says what each does to the order.
"""

from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip
from tokenmill.edits.resumed_run import edit_state

__all__ = ["Add", "Ban", "Cap", "Reweight", "Skip", "edit_state"]
