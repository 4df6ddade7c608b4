"""The text of units as it is encoded: here as it is in its files.

`cleaned_text.py` has the same for texts that are cleaned, or lose repeated lines.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.preparation.planning.limits import load_limits, one_at_a_time
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.inputs.open_input import TOKENS, Source
from tokenmill.text.inputs.units import whole_file
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.read import read_files, read_unit
from tokenmill.text.reading.read_text import read_small_file

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search


def text_of(plan: Plan, unit: int, lines: "Search | None", first: int) -> Iterator[Chunk]:
    """Yield the text of a unit as it is encoded.

    `lines` knows the repeated lines; there unit 0 is unit `first`.
    """
    if lines is None and not plan.settings.clean:
        return read_chunks(plan, unit)
    from tokenmill.preparation.stages.cleaned_text import cleaned_text

    return cleaned_text(plan, unit, lines, first)


def read_chunks(plan: Plan, unit: int) -> Iterator[Chunk]:
    """Read one unit."""
    with one_at_a_time(plan.workspace) as on_large:
        for chunk in UnitReader(plan, unit, on_large).chunks():
            yield chunk
            del chunk
            on_large(False)


def read_first_chunk(plan: Plan) -> Chunk:
    """Read the first documents of the first file."""
    with one_at_a_time(plan.workspace) as on_large:
        return next(UnitReader(plan, 0, on_large).read(plan.sources[0]), Chunk([]))


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
        sources = self._plan.sources_of(self._number)
        if len(sources) == 1:
            return self.read(sources[0])
        settings = self._plan.settings
        is_file = settings.document_is == "file" and not settings.separator
        return read_files(
            sources, self._read_small if is_file else self.read, self._plan.chunk_bytes
        )

    def _read_small(self, source: Source) -> Iterator[Chunk]:
        """A small file that is one document, in one go where nothing is to be said about it."""
        small = read_small_file(source, self._plan.chunk_bytes)
        return iter([small]) if small is not None else self.read(source)

    def read(self, source: Source) -> Iterator[Chunk]:
        try:
            yield from self._chunks_of(source, self._rules_for(source.kind))
        except TooLargeError as error:
            self._limits.explain(error, source.kind)
            raise

    def _chunks_of(self, source: Source, rules: ReadRules) -> Iterator[Chunk]:
        if source.kind == TOKENS:
            from tokenmill.preparation.stages.token_inputs import read_documents

            return read_documents(source, self._unit, rules)
        if self._unit.num_sources > 1:
            return read_unit(source, whole_file(source), rules)
        if self._plan.is_packed(self._number):
            from tokenmill.preparation.stages.unpack import unpacked_chunks

            return unpacked_chunks(self._plan, self._number, rules)
        return read_unit(source, self._unit, rules)

    def _rules_for(self, kind: str) -> ReadRules:
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


def find_characters(out_dir: str, unit: int) -> Receipt:
    """Task: the characters of one unit, for the tokenizer `chars`."""
    from tokenmill.tokens.bytes_and_chars import chars_of

    plan = load_plan(out_dir)
    characters: set[str] = set()
    num_bytes = 0
    with naming_source(plan, unit):
        for chunk in plan.workspace.noting(unit, text_of(plan, unit, None, 0)):
            characters |= chars_of(chunk.texts)
            num_bytes += chunk.bytes_in
    facts = {"characters": "".join(sorted(characters)), "counts": {"bytes_in": num_bytes}}
    return plan.workspace.leave_receipt("characters", str(unit), [], facts)
