"""Sources are cut into units of work: a plan made from sizes alone, whatever the workers.

An uncompressed text or JSONL file becomes ranges of bytes; where such a unit really begins and
ends is found when it is read (`align.py`), so planning a terabyte reads nothing but footers. A
parquet file becomes runs of row groups; a compressed file and a CSV file are one unit each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenmill.text.inputs.row_groups import row_group_bytes
from tokenmill.text.inputs.sources import Source


@dataclass(frozen=True)
class Unit:
    """A part of one source that is read in one go."""

    source: int
    """Position in the list of sources."""
    start: int
    stop: int
    """Bytes of the file; row groups for parquet."""


def cut_into_units(sources: Sequence[Source], unit_bytes: int) -> list[Unit]:
    """Units of about `unit_bytes` each, in the order of the sources; at least one a source."""
    if unit_bytes < 1:
        raise ValueError(f"unit_bytes is {unit_bytes}; it must be at least 1")
    units = []
    for number, source in enumerate(sources):
        if source.kind == "parquet" and source.compression is None:
            units += _runs_of_row_groups(number, row_group_bytes(source), unit_bytes)
        elif source.compression is None and source.kind in ("text", "jsonl"):
            starts = range(0, max(source.size, 1), unit_bytes)
            units += [Unit(number, at, min(at + unit_bytes, source.size)) for at in starts]
        else:
            units.append(Unit(number, 0, source.size))
    return units


def _runs_of_row_groups(number: int, sizes: list[int], unit_bytes: int) -> list[Unit]:
    units = []
    start = filled = 0
    for group, size in enumerate(sizes):
        filled += size
        if filled >= unit_bytes:
            units.append(Unit(number, start, group + 1))
            start, filled = group + 1, 0
    if start < len(sizes) or not units:
        units.append(Unit(number, start, len(sizes)))
    return units
