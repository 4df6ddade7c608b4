"""The text of units, cleaned and without repeated lines.

Repeated lines must be known before a text is encoded: the stage `lines` hashes every line, and
leaves 24 bytes for each. Reading and cleaning costs about as much as encoding: if the disk has
room, the text is kept until it is encoded. No receipt vouches for it, which would have to wait for
the disk: each chunk is compared with its hash, and read again where it is gone or damaged.
"""

import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import IO, Any

import numpy as np

from tokenmill.errors import TokenmillError
from tokenmill.preparation.planning.limits import load_limits, one_at_a_time
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import Hashed, Search
from tokenmill.preparation.stages.unit_text import (
    kept_file,
    naming_source,
    read_chunks,
    read_first_chunk,
)
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.cleaning.clean import clean
from tokenmill.text.cleaning.clean_chunks import (
    SHOWN_CHARACTERS,
    CleanChunk,
    clean_chunk,
    drop_lines,
    keep_chunk,
    lines_to_compare,
    read_kept,
    shorten,
)
from tokenmill.text.cleaning.line_work import hash_selected
from tokenmill.text.reading.chunks import EXAMPLES, Chunk

LOOKED_AT_BYTES = 64 << 10


def cleaned_chunks(plan: Plan, unit: int) -> Iterator[CleanChunk]:
    """Read one unit, and clean its texts if that is asked for; apply rules if there are any."""
    settings = plan.settings
    long_line = settings.long_line if settings.dedup == "lines" else None
    is_clean = settings.has_rules  # one of them cleans
    for chunk in _filtered_chunks(plan, unit) if settings.has_rules else read_chunks(plan, unit):
        yield clean_chunk(chunk, normalize=settings.clean and not is_clean, long_line=long_line)


def _filtered_chunks(plan: Plan, unit: int) -> Iterator[Chunk]:
    from tokenmill.preparation.stages.filtered_text import filtered_chunks

    return filtered_chunks(plan, unit)


def hash_lines(out_dir: str, unit: int, search: Search, keep_text: bool) -> Receipt:
    """Task: leave the line hashes of one unit, perhaps its text."""
    plan = load_plan(out_dir)
    number = search.first + unit
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

    kept_text = plan.workspace.new("lines", kept_file(unit)) if keep_text else nullcontext()
    with naming_source(plan, unit), kept_text as text:
        num_hashes = search.write_hashes(plan.workspace, number, hashed(text))
    facts = {"hashes": num_hashes, "counts": counts, "kept": kept}
    return plan.workspace.leave_receipt("lines", str(number), [f"{number}.hashes"], facts)


def cleaned_text(plan: Plan, unit: int, lines: Search | None) -> Iterator[Chunk]:
    """Yield the text of a unit after cleaning, without the lines that `lines` found repeated."""
    if lines is None and plan.settings.has_rules:
        return _filtered_chunks(plan, unit)
    chunks = cleaned_chunks(plan, unit)
    repeated = np.empty(0, np.uint32)
    if lines is not None:
        repeated = lines.repeated(plan.workspace, unit)
        receipt = plan.workspace.receipt("lines", str(lines.first + unit)) or {}
        chunks = _kept_chunks(plan, unit, receipt.get("kept", []))
    chunks_left = drop_lines(chunks, repeated, normalize=plan.settings.clean)
    return map(_note_left, chunks_left) if plan.settings.has_rules else chunks_left


def _note_left(chunk: Chunk) -> Chunk:
    chunk.left["dedup lines"] = (len(chunk.texts), sum(map(len, chunk.texts)), 0.0)
    return chunk


def _kept_chunks(plan: Plan, unit: int, kept: list[dict[str, Any]]) -> Iterator[CleanChunk]:
    """Yield the kept chunks of a unit; from the first that is gone or damaged on, from its source.

    Whoever encodes the same unit may remove the text at any time.
    """
    limits = load_limits(plan.workspace)
    share = min(limits.share(source.kind) for source in plan.sources_of(unit))
    num_read = 0
    with (
        suppress(FileNotFoundError),
        plan.workspace.open("lines", kept_file(unit), whole=True) as file,
        one_at_a_time(plan.workspace) as on_large,
    ):
        for known in kept:
            on_large(known["num_bytes"] > share)
            chunk = read_kept(file, known)
            if chunk is None:
                break
            yield chunk
            del chunk
            num_read += 1
    if num_read < len(kept) or not kept:
        yield from islice(cleaned_chunks(plan, unit), num_read, None)


def changed_lines(plan: Plan) -> list[str]:
    """Return the first lines that cleaning changes, before and after, with their file."""
    try:
        texts = read_first_chunk(replace(plan, chunk_bytes=LOOKED_AT_BYTES)).texts
    except TokenmillError:  # all was read already: it is gone, or another one by now
        return []
    text = b"\n".join(texts)[:LOOKED_AT_BYTES]
    lines = text.decode("utf-8", "ignore").encode().split(b"\n")
    changes = []
    for line, cleaned in zip(lines, clean(lines).texts, strict=True):
        if cleaned and line != cleaned:
            before, after = line.decode(), cleaned.decode()
            # From a little before the first character that differs.
            same = len(os.path.commonprefix([before, after]))  # noqa: RUF071
            start = 0 if same < SHOWN_CHARACTERS // 2 else same - SHOWN_CHARACTERS // 4
            change = f"{shorten(before, start)} -> {shorten(after, start)}"
            changes.append(f"{plan.sources[0].name}: {change}")
    return changes[:EXAMPLES]
