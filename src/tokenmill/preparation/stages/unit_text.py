"""The text of a unit, read and cleaned, and the stages that only look at it.

characters: which characters there are, for the tokenizer `chars`.
lines: hash every line. Lines are dropped before a text is encoded, so repeated ones must be known
in advance. This leaves 24 bytes a line on disk, and the cleaned text itself if there is room.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.preparation.budget.memory_budget import load_limits, one_at_a_time
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import Hashed, write_runs
from tokenmill.preparation.stages.unpack import find_unpacked, in_compressed_bytes, is_unpacked
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
from tokenmill.text.reading.read import read_files, read_part, read_unit
from tokenmill.text.reading.read_text import read_small_file
from tokenmill.tokens.bytes_and_chars import chars_of
from tokenmill.tokens.cuts import AT_CHARACTERS


@leaves_receipt(lambda _, unit: ("characters", str(unit)))
def find_characters(out_dir: str, unit: int) -> Receipt:
    """Task: the characters of one unit."""
    plan = load_plan(out_dir)
    found, num_bytes = set[str](), 0
    with naming_source(plan, unit):
        chunks = cleaned_chunks(plan, unit, AT_CHARACTERS)
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
        chunks = cleaned_chunks(plan, unit, plan.tokenizer.cuts)
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


def kept_text(plan: Plan, number: int) -> KeptChunks | None:
    """The cleaned text that `hash_lines` kept of a unit, as run `number`; None: it kept none."""
    receipt = plan.workspace.receipt("lines", str(number)) or {}
    path, known = plan.workspace.path("lines", f"{number}.text"), receipt.get("kept")
    return None if known is None else KeptChunks(path, known)


def kept_chunks(plan: Plan, unit: int, kept: KeptChunks) -> Iterator[CleanChunk]:
    """The same as `cleaned_chunks`, from the text that was kept."""
    limits = load_limits(plan.workspace)
    share = min(limits.share(source.kind) for source in plan.sources_of(unit))
    with one_at_a_time(plan.workspace) as on_large:
        yield from kept.chunks(share, on_large)


def cleaned_chunks(plan: Plan, unit: int, cuts: re.Pattern[bytes] | None) -> Iterator[CleanChunk]:
    """Read one unit, and clean its texts unless asked not to."""
    where, settings = plan.units[unit], plan.settings
    limits, chunk_bytes = load_limits(plan.workspace), plan.chunk_bytes
    one_by_one = where.num_sources > 1 and settings.documents == "file" and not settings.separator

    @functools.cache
    def rules_for(kind: str) -> ReadRules:
        return replace(
            settings.read_rules,
            max_document_bytes=limits.document_bytes(kind),
            large_document_bytes=limits.share(kind),
            on_large=on_large,
            spool_dir=str(plan.workspace.root),
        )

    def read(source: Source) -> Iterator[Chunk]:
        if one_by_one and (small := read_small_file(source, chunk_bytes)):
            yield small
            return
        rules = rules_for(source.kind)
        try:
            if is_unpacked(plan, unit):
                yield from _unpacked_chunks(plan, unit, rules, cuts)
                return
            if source.kind == TOKENS:
                from tokenmill.preparation.from_tokens.token_inputs import read_documents

                yield from read_documents(source, where, rules, chunk_bytes)
                return
            part = where if where.num_sources == 1 else whole_file(source)
            yield from read_unit(source, part, rules, cuts=cuts, chunk_bytes=chunk_bytes)
        except TooLargeError as error:
            limits.explain(error, source.kind)
            raise

    with one_at_a_time(plan.workspace) as on_large:
        sources = plan.sources_of(unit)
        chunks = read(*sources) if len(sources) == 1 else read_files(sources, read, chunk_bytes)
        long_line = settings.long_line if settings.dedup == "lines" else None
        for chunk in chunks:
            yield clean_chunk(chunk, normalize=settings.clean, long_line=long_line)


def _unpacked_chunks(
    plan: Plan, unit: int, rules: ReadRules, cuts: re.Pattern[bytes] | None
) -> Iterator[Chunk]:
    """The chunks of a part of a compressed file."""
    where = plan.units[unit]
    source, part = find_unpacked(plan, unit)
    chunks: Iterable[Chunk] = ()
    if part.start < part.stop or where.start == 0:
        chunks = read_part(source, part, rules, cuts=cuts, chunk_bytes=plan.chunk_bytes)
    yield from in_compressed_bytes(chunks, part, where)


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
