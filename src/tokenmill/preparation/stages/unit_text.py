"""The text of a unit, read and cleaned, and the stages that only look at it.

characters: which characters there are, for the tokenizer `chars`.
lines: hash every line. Lines are dropped before a text is encoded, so repeated ones must be known
in advance. This leaves 24 bytes a line on disk, and the cleaned text itself if there is room.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.preparation.budget.memory_budget import load_limits, one_at_a_time
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import Hashed, write_runs
from tokenmill.preparation.stages.unpack import is_unpacked, unpacked_chunks
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.under_way import UnderWay
from tokenmill.preparation.workspace.work_folder import leaves_receipt
from tokenmill.text.cleaning.clean_chunks import (
    ChunkKeeper,
    CleanChunk,
    KeptChunks,
    clean_chunk,
    lines_to_compare,
)
from tokenmill.text.cleaning.line_work import hash_selected
from tokenmill.text.inputs.open_input import TOKENS, Source
from tokenmill.text.inputs.units import whole_file
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.read import read_files, read_unit
from tokenmill.text.reading.read_text import read_small_file
from tokenmill.tokens.bytes_and_chars import chars_of


@leaves_receipt(lambda _, unit: ("characters", str(unit)))
def find_characters(out_dir: str, unit: int) -> Receipt:
    """Task: the characters of one unit."""
    plan = load_plan(out_dir)
    found, num_bytes = set[str](), 0
    with naming_source(plan, unit):
        chunks = cleaned_chunks(plan, unit)
        for chunk in UnderWay(plan.workspace).noting(unit, chunks):
            found |= chars_of(chunk.texts)
            num_bytes += chunk.bytes_in
    facts = {"characters": "".join(sorted(found)), "counts": {"bytes_in": num_bytes}}
    return plan.workspace.leave_receipt("characters", str(unit), [], facts)


@leaves_receipt(lambda _, unit, first, keep_text: ("lines", str(first + unit)))
def hash_lines(out_dir: str, unit: int, first: int, keep_text: bool) -> Receipt:
    """Task: leave the sorted line hashes of one unit, perhaps its text; unit 0 is run `first`."""
    plan, number = load_plan(out_dir), first + unit
    min_chars, long_line = plan.settings.dedup_min_chars, plan.settings.long_line
    counts = {"lines": 0, "bytes_in": 0}

    def hashed(keeper: ChunkKeeper | None) -> Iterator[Hashed]:
        chunks = cleaned_chunks(plan, unit)
        for chunk in UnderWay(plan.workspace).noting(unit, chunks):
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
        runs = write_runs(plan.workspace, "lines", number, hashed(keeper))
        facts = {"runs": runs, "counts": counts, "kept": keeper.finish() if keeper else None}
    return plan.workspace.leave_receipt("lines", str(number), [f"{number}.runs"], facts)


def kept_text(plan: Plan, number: int) -> KeptChunks:
    """The cleaned text that `hash_lines` kept of a unit, as run `number`."""
    receipt = plan.workspace.receipt("lines", str(number)) or {}
    return KeptChunks(plan.workspace.path("lines", f"{number}.text"), receipt.get("kept") or [])


def kept_chunks(plan: Plan, unit: int, kept: KeptChunks) -> Iterator[CleanChunk]:
    """The same as `cleaned_chunks`, from the text that was kept."""
    limits = load_limits(plan.workspace)
    share = min(limits.share(source.kind) for source in plan.sources_of(unit))
    with one_at_a_time(plan.workspace) as on_large:
        yield from kept.chunks(share, on_large)


def cleaned_chunks(plan: Plan, unit: int) -> Iterator[CleanChunk]:
    """Read one unit, and clean its texts if that is asked for."""
    settings = plan.settings
    long_line = settings.long_line if settings.dedup == "lines" else None
    with one_at_a_time(plan.workspace) as on_large:
        for chunk in UnitReader(plan, unit, on_large).chunks():
            yield clean_chunk(chunk, normalize=settings.clean, long_line=long_line)


class UnitReader:
    """Reads the documents of one unit."""

    def __init__(self, plan: Plan, unit: int, on_large: Callable[[bool], None]) -> None:
        self._plan = plan
        self._number = unit
        self._unit = plan.units[unit]
        self._limits = load_limits(plan.workspace)
        self._on_large = on_large
        self._rules: dict[str, ReadRules] = {}

    def chunks(self) -> Iterator[Chunk]:
        """All documents, a chunk at a time."""
        sources = self._plan.sources_of(self._number)
        if len(sources) == 1:
            return self._read(sources[0])
        settings = self._plan.settings
        is_file = settings.documents == "file" and not settings.separator
        return read_files(
            sources, self._read_small if is_file else self._read, self._plan.chunk_bytes
        )

    def first_chunk(self) -> Chunk:
        """The first documents of the first file."""
        return next(self._read(self._plan.sources_of(self._number)[0]), Chunk([]))

    def _read_small(self, source: Source) -> Iterator[Chunk]:
        """A small file that is one document, in one go where nothing is to be said about it."""
        small = read_small_file(source, self._plan.chunk_bytes)
        return iter([small]) if small is not None else self._read(source)

    def _read(self, source: Source) -> Iterator[Chunk]:
        try:
            yield from self._chunks_of(source, self._rules_for(source.kind))
        except TooLargeError as error:
            self._limits.explain(error, source.kind)
            raise

    def _chunks_of(self, source: Source, rules: ReadRules) -> Iterator[Chunk]:
        if source.kind == TOKENS:
            from tokenmill.preparation.from_tokens.token_inputs import read_documents

            return read_documents(source, self._unit, rules)
        if self._unit.num_sources > 1:
            return read_unit(source, whole_file(source), rules)
        if is_unpacked(self._plan, self._number):
            return unpacked_chunks(self._plan, self._number, rules)
        return read_unit(source, self._unit, rules)

    def _rules_for(self, kind: str) -> ReadRules:
        """The rules of reading for files of one kind."""
        if kind not in self._rules:
            self._rules[kind] = replace(
                self._plan.settings.read_rules,
                cuts=self._plan.cuts,
                chunk_bytes=self._plan.chunk_bytes,
                max_document_bytes=self._limits.document_bytes(kind),
                large_document_bytes=self._limits.share(kind),
                on_large=self._on_large,
                spool_dir=str(self._plan.workspace.root),
            )
        return self._rules[kind]


@contextmanager
def naming_source(plan: Plan, unit: int) -> Iterator[None]:
    """Whatever goes wrong inside says which file was being read."""
    name = plan.name_of(unit)
    try:
        yield
    except PrepareError as error:
        if not error.source:
            error.source, error.message = name, f"{name}: {error.message}"
        raise
    except (TokenmillError, OSError):
        raise
    except MemoryError as error:
        raise PrepareError(
            f"{name}: there is not enough memory: {str(error) or 'none is left'}",
            hint="lower --workers or --max_ram, or raise the limit of memory (ulimit -v)",
        ) from error
    except Exception as error:
        raise PrepareError(
            f"{name}: {type(error).__name__}: {error}",
            hint="this is a fault of tokenmill or of a library it uses; please report it",
            source=name,
        ) from error
