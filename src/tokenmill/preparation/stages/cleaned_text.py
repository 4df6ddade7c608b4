"""The text of units, cleaned and without repeated lines.

Where lines are compared, a text is needed twice: if the disk has room, it is kept from hashing its
lines until it is encoded.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tokenmill.preparation.planning.memory_budget import load_limits, one_at_a_time
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.unit_text import (
    SEAM_BYTES,
    ReadAgainError,
    TextChunk,
    read_chunks,
)
from tokenmill.text.cleaning.clean_chunks import (
    CleanChunk,
    KeptChunks,
    KeptTextError,
    LineDropper,
    clean_chunk,
)

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search


def cleaned_chunks(plan: Plan, unit: int) -> Iterator[CleanChunk]:
    """Read one unit, and clean its texts if that is asked for."""
    settings = plan.settings
    long_line = settings.long_line if settings.dedup == "lines" else None
    for chunk in read_chunks(plan, unit):
        yield clean_chunk(chunk, normalize=settings.clean, long_line=long_line)


class CleanedText:
    """Texts as they are after cleaning, without the lines that `lines` knows to be repeated."""

    def __init__(self, plan: Plan, lines: "Search | None", first: int) -> None:
        self._plan = plan
        self._lines = lines
        self._first = first
        self._is_kept = lines is not None

    def chunks(self, unit: int) -> Iterator[TextChunk]:
        return self._without_repeated(unit, self._cleaned(unit))

    def _cleaned(self, unit: int) -> Iterator[CleanChunk]:
        if not self._is_kept:
            yield from cleaned_chunks(self._plan, unit)
            return
        try:
            yield from self._kept_chunks(unit)
        except KeptTextError as error:
            self._is_kept = False
            raise ReadAgainError from error

    def first_chunks(self, unit: int) -> Iterator[TextChunk]:
        return self._without_repeated(unit, self._first_cleaned(unit))

    def _first_cleaned(self, unit: int) -> Iterator[CleanChunk]:
        if self._lines is None:
            return cleaned_chunks(replace(self._plan, chunk_bytes=SEAM_BYTES), unit)
        # Lines are numbered in chunks of one size.
        try:
            kept = self._kept_chunks(unit)
            return chain([next(kept)], kept)
        except (KeptTextError, StopIteration):  # it is encoded already
            return cleaned_chunks(self._plan, unit)

    def _without_repeated(self, unit: int, chunks: Iterator[CleanChunk]) -> Iterator[TextChunk]:
        repeated = None
        if self._lines is not None:
            repeated = self._lines.repeated(self._plan.workspace, self._first + unit)
        dropper = LineDropper(repeated, normalize=self._plan.settings.clean)
        for chunk in chunks:
            before = dropper.num_dropped
            texts = dropper.drop(chunk)
            yield TextChunk(texts, chunk, dropper.num_dropped - before)

    def forget(self, unit: int) -> None:
        if self._lines is not None:
            self._kept(unit).remove()

    def _kept(self, unit: int) -> KeptChunks:
        name = str(self._first + unit)
        receipt = self._plan.workspace.receipt("lines", name) or {}
        path = self._plan.workspace.path("lines", f"{name}.text")
        return KeptChunks(path, receipt.get("kept") or [])

    def _kept_chunks(self, unit: int) -> Iterator[CleanChunk]:
        limits = load_limits(self._plan.workspace)
        share = min(limits.share(source.kind) for source in self._plan.sources_of(unit))
        with one_at_a_time(self._plan.workspace) as on_large:
            yield from self._kept(unit).chunks(share, on_large)
