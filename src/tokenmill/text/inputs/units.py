"""Sources are cut into units of work: a plan made from sizes alone, whatever the workers.

A text or JSONL file becomes ranges of bytes; where such a unit really begins and ends is found when
it is read (`cut_pieces.py`), so planning a terabyte reads nothing but the footers of parquet files.
Those become runs of row groups (of Arrow: record batches); a compressed file and a CSV file are one
unit each, but a compressed text that is a large part of the input may be unpacked first, and is
then cut too. Many small files are one unit together: any costs what reading a megabyte costs.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tokenmill.base.address import is_address
from tokenmill.text.inputs.open_input import REQUESTS_AT_ONCE, TABLES, Source

_SMALL_BYTES = 1 << 20  # a larger file is one unit: errors then name it
_MOST_FILES = 10_000  # in one unit
_UNPACKED = 32  # times the size of a compressed file, or more, but seldom
_UNPACKED_OF_TEXT = 4  # the same of text
_LARGE_SHARE = 16
_ENOUGH_UNITS = 16
_MOST_UNITS = 1 << 14  # where units are of more than `unit_bytes`: above 550 GB
_USUAL_BYTES = 32 << 20
_LEAST_BYTES = 8 << 20  # of a unit; smaller ones cost more than they help


@dataclass(frozen=True)
class Unit:
    """A part of one source that is read in one go, or several small sources."""

    source: int
    """Position in the list of sources."""
    start: int
    stop: int
    """Bytes of the file; row groups for parquet, record batches for Arrow."""
    num_sources: int = 1
    """More than one: this many files, each of them whole; `stop` is their size."""

    @property
    def sources(self) -> range:
        return range(self.source, self.source + self.num_sources)


def choose_unit_bytes(sources: Sequence[Source], most: int) -> int:
    """Return `most`, or less for little text: some sixteen units keep all workers busy.

    Or more, so that there are at most `_MOST_UNITS`: each partition of a search reads all units.
    """
    packed = sum(source.size for source in sources if source.compression)
    text = sum(source.size for source in sources) + (_UNPACKED_OF_TEXT - 1) * packed
    usual = min(most, max(_LEAST_BYTES, text // _ENOUGH_UNITS))
    return usual if most < _USUAL_BYTES else max(usual, text // _MOST_UNITS)


def cut_into_units(
    sources: Sequence[Source], unit_bytes: int, *, unpacked: Collection[int] = ()
) -> list[Unit]:
    """Return units of about `unit_bytes` each, in the order of the sources.

    Every source has at least one. `unpacked` are the numbers of compressed files that will be
    unpacked: they are cut too.
    """
    if unit_bytes < 1:
        raise ValueError(f"unit_bytes is {unit_bytes}; it must be at least 1")
    units = []
    tables = {number: source for number, source in enumerate(sources) if source.has_groups}
    runs = _runs_of_tables(tables, unit_bytes) if tables else {}
    for number, source in enumerate(sources):
        if number in runs:
            units += runs[number]
        elif source.compression is None and source.kind in ("text", "jsonl"):
            units += _ranges(number, source, unit_bytes)
        elif number in unpacked:
            units += _ranges(number, source, -(-unit_bytes // _UNPACKED_OF_TEXT))
        else:
            units.append(Unit(number, 0, source.size))
    return units


def _ranges(number: int, source: Source, size: int) -> list[Unit]:
    starts = range(0, max(source.size, 1), size)
    return [Unit(number, at, min(at + size, source.size)) for at in starts]


def worth_unpacking(sources: Sequence[Source]) -> list[int]:
    """Return compressed texts that are a large part of the input: one reader would be slow."""
    most = sum(source.size for source in sources) // _LARGE_SHARE
    return [
        number
        for number, source in enumerate(sources)
        if source.compression and source.kind in ("text", "jsonl") and source.size > most
    ]


def whole_file(source: Source) -> Unit:
    """Return a unit that is all of a file."""
    if source.has_groups:
        return _runs_of_row_groups(0, source, 1 << 62)[0]
    return Unit(0, 0, source.size)


def group_small_files(
    units: Sequence[Unit], sources: Sequence[Source], unit_bytes: int
) -> Iterator[Unit]:
    """Yield the units, with neighbours that are small files as one of about `unit_bytes`."""
    parts_of = Counter(unit.source for unit in units)
    group: list[Unit] = []
    filled = 0
    for unit in units:
        source = sources[unit.source]
        size = source.size * (_UNPACKED if source.compression or source.kind in TABLES else 1)
        is_small = parts_of[unit.source] == 1 and size < min(unit_bytes, _SMALL_BYTES)
        fits = filled + size <= unit_bytes and len(group) < _MOST_FILES
        if group and not (is_small and fits and source.split == sources[group[0].source].split):
            yield _together(group, filled)
            group = []
            filled = 0
        if is_small:
            group.append(unit)
            filled += size
        else:
            yield unit
    if group:
        yield _together(group, filled)


def _together(group: list[Unit], size: int) -> Unit:
    first = group[0]
    return first if len(group) == 1 else Unit(first.source, 0, size, len(group))


def _runs_of_tables(tables: dict[int, Source], unit_bytes: int) -> dict[int, list[Unit]]:
    given = (tables, tables.values(), [unit_bytes] * len(tables))
    if any(is_address(source.path) for source in tables.values()):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:  # the footers are far away
            runs = list(pool.map(_runs_of_row_groups, *given))
    else:
        runs = list(map(_runs_of_row_groups, *given))
    return dict(zip(tables, runs, strict=True))


def _runs_of_row_groups(number: int, source: Source, unit_bytes: int) -> list[Unit]:
    from tokenmill.text.inputs.tables import open_table

    with open_table(source) as table:
        sizes = table.sizes
    units = []
    start = filled = 0
    for group, size in enumerate(sizes):
        filled += size
        if filled >= unit_bytes:
            units.append(Unit(number, start, group + 1))
            start = group + 1
            filled = 0
    if start < len(sizes) or not units:
        units.append(Unit(number, start, len(sizes)))
    return units
