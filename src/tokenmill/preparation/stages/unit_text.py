"""The text of units as it is in its files; cleaned_text.py gives it clean, or without lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.preparation.planning.limits import load_limits, one_at_a_time
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.inputs.open_input import TOKENS, Source
from tokenmill.text.inputs.units import whole_file
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import Chunk
from tokenmill.text.reading.read import read_files, read_unit
from tokenmill.text.reading.read_text import read_small_file

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search


def text_of(plan: Plan, unit: int, lines: "Search | None") -> Iterator[Chunk]:
    """Yield the text of a unit as it is encoded, without the lines that `lines` found repeated."""
    if lines is None and not plan.settings.clean and not plan.settings.has_rules:
        return read_chunks(plan, unit)
    from tokenmill.preparation.stages.cleaned_text import cleaned_text

    return cleaned_text(plan, unit, lines)


def kept_file(unit: int) -> str:
    """Return the name, in the folder `lines`, of the text that may be kept for a unit."""
    return f"{unit}.text"


def read_chunks(plan: Plan, unit: int) -> Iterator[Chunk]:
    """Read one unit."""
    settings = plan.settings
    is_document = settings.document_is == "file" and not settings.separator

    def read(source: Source) -> Iterator[Chunk]:
        small = None
        if is_document:
            small = read_small_file(source, plan.chunk_bytes, keeps_facts=settings.keeps_facts)
        return _read(plan, unit, source, on_large) if small is None else iter([small])

    with one_at_a_time(plan.workspace) as on_large:
        sources = plan.sources_of(unit)
        chunks = _read(plan, unit, sources[0], on_large)
        if len(sources) > 1:
            chunks = read_files(sources, read, plan.chunk_bytes)
        for chunk in chunks:
            yield chunk
            del chunk
            on_large(False)


def read_first_chunk(plan: Plan) -> Chunk:
    """Read the first documents of the first file."""
    with one_at_a_time(plan.workspace) as on_large:
        return next(_read(plan, 0, plan.sources[0], on_large), Chunk([]))


def _read(
    plan: Plan, number: int, source: Source, on_large: Callable[[bool], None]
) -> Iterator[Chunk]:
    unit = plan.units[number]
    limits = load_limits(plan.workspace)
    rules = replace(
        plan.settings.read_rules,
        cuts=plan.cuts,
        chunk_bytes=plan.chunk_bytes,
        max_document_bytes=limits.document_bytes(source.kind),
        large_document_bytes=limits.share(source.kind),
        on_large=on_large,
        spool_dir=str(plan.workspace.spool),
        text_of_row=_text_of_row(plan) if plan.settings.chat else None,
    )
    try:
        if source.kind == TOKENS:
            from tokenmill.preparation.stages.token_inputs import read_documents

            yield from read_documents(source, unit, rules)
        elif unit.num_sources > 1:
            yield from read_unit(source, whole_file(source), rules)
        elif plan.is_packed(number):
            from tokenmill.preparation.stages.unpack import unpacked_chunks

            yield from unpacked_chunks(plan, number, rules)
        else:
            yield from read_unit(source, unit, rules)
    except TooLargeError as error:
        limits.explain(error, source.kind)
        raise


def _text_of_row(plan: Plan) -> Callable[[Any], bytes]:
    from tokenmill.preparation.stages.conversations import reader_of

    return reader_of(plan.settings, plan.tokenizer).text_of


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


def find_characters(out_dir: str, unit: int) -> Receipt:
    """Task: the characters of one unit, for the tokenizer `chars`."""
    from tokenmill.tokens.bytes_and_chars import chars_of

    plan = load_plan(out_dir)
    characters: set[str] = set()
    num_bytes = 0
    with naming_source(plan, unit):
        for chunk in plan.workspace.noting(unit, text_of(plan, unit, None)):
            characters |= chars_of(chunk.texts)
            num_bytes += chunk.bytes_in
    facts = {"characters": "".join(sorted(characters)), "counts": {"bytes_in": num_bytes}}
    return plan.workspace.leave_receipt("characters", str(unit), [], facts)
