"""lines: hash every line.

Lines are dropped before a text is encoded, so repeated ones must be known in advance. This leaves
24 bytes per line on disk, and the cleaned text itself if there is room.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np

from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages.cleaned_text import cleaned_chunks
from tokenmill.preparation.stages.duplicates import Hashed, Search
from tokenmill.preparation.stages.unit_text import naming_source
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.cleaning.clean_chunks import ChunkKeeper, lines_to_compare
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

    def hashed(keeper: ChunkKeeper | None) -> Iterator[Hashed]:
        chunks = cleaned_chunks(plan, unit)
        for chunk in plan.workspace.noting(unit, chunks):
            lines, which = lines_to_compare(chunk, min_chars=min_chars, long_line=long_line)
            if keeper is not None:
                keeper.add(chunk, lines)
            # An ordinal is the number of a line in the unit.
            ordinals = np.flatnonzero(which) + counts["lines"]
            yield hash_selected(lines, which), ordinals
            counts["lines"] += len(lines)
            counts["bytes_in"] += chunk.bytes_in

    path = plan.workspace.path("lines", f"{number}.text")
    with naming_source(plan, unit), ChunkKeeper(path) if keep_text else nullcontext() as keeper:
        num_hashes = search.write_hashes(plan.workspace, number, hashed(keeper))
        kept = keeper.finish() if keeper else None
        facts = {"hashes": num_hashes, "counts": counts, "kept": kept}
    return plan.workspace.leave_receipt("lines", str(number), [f"{number}.hashes"], facts)
