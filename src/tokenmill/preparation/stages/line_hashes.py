"""lines: hash every line.

Lines are dropped before a text is encoded, so repeated ones must be known in advance. This leaves
24 bytes per line on disk, and the cleaned text itself if there is room.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import IO, Any

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.base.hashing import hash_file
from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages.cleaned_text import cleaned_chunks, kept_file
from tokenmill.preparation.stages.duplicates import Hashed, Search
from tokenmill.preparation.stages.unit_text import naming_source
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.cleaning.clean_chunks import keep_chunk, lines_to_compare
from tokenmill.text.cleaning.line_work import hash_selected


def hash_lines(out_dir: str, unit: int, first: int, search: Search, keep_text: bool) -> Receipt:
    """Task: leave the line hashes of one unit, perhaps its text.

    Unit 0 is unit `first` of the search.
    """
    plan = load_plan(out_dir)
    number = first + unit
    min_chars = plan.settings.dedup_min_chars
    long_line = plan.settings.long_line
    counts = {"lines": 0, "bytes_in": 0}
    kept: list[dict[str, Any]] = []

    def hashed(text: IO[bytes] | None) -> Iterator[Hashed]:
        for chunk in plan.workspace.noting(unit, cleaned_chunks(plan, unit)):
            which = lines_to_compare(chunk, min_chars=min_chars, long_line=long_line)
            if text is not None:
                kept.append(keep_chunk(text, chunk))
            # An ordinal is the number of a line in the unit.
            ordinals = np.flatnonzero(which) + counts["lines"]
            yield hash_selected(chunk.lines, which), ordinals
            counts["lines"] += len(chunk.lines)
            counts["bytes_in"] += chunk.bytes_in

    path = kept_file(plan, number)
    with naming_source(plan, unit), new_file(path) if keep_text else nullcontext() as text:
        num_hashes = search.write_hashes(plan.workspace, number, hashed(text))
    facts = {
        "hashes": num_hashes,
        "counts": counts,
        "kept": kept,
        "kept_hash": hash_file(path) if keep_text else None,
    }
    return plan.workspace.leave_receipt("lines", str(number), [f"{number}.hashes"], facts)
