"""What people should know of their inputs: what they look like, and what cleaning does to them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from tokenmill.base.address import is_remote
from tokenmill.base.human import one_line
from tokenmill.errors import BadInputError
from tokenmill.preparation.plan import Plan
from tokenmill.text.cleaning.clean import clean
from tokenmill.text.inputs.file_kind import find_code, lookalikes
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.cuts import AT_CHARACTERS

EXAMPLES = 3
LOOKED_AT = 8  # files whose beginning is read in search of them
AT_ONCE = 1 << 20  # bytes of each
SHOWN_CHARACTERS = 60


def notes_on_inputs(plan: Plan) -> list[str]:
    """Sentences to read before hours of work."""
    notes = lookalikes(list(plan.sources), plan.settings.text_field)
    does = []
    if plan.settings.clean:
        does.append("cleaning shortens indentation to one space (clean=False keeps it)")
    if plan.settings.dedup == "lines":
        does.append(
            "lines that were there before are dropped, from any file "
            '(dedup="documents" or dedup="none" keeps them)'
        )
    code = find_code(plan.sources) if does else []
    if 2 * sum(source.size for source in code) > plan.bytes_in:
        notes.append(f"most of the input is source code, such as {code[0].name}: {'; '.join(does)}")
    return notes


def changed_lines(plan: Plan) -> list[str]:
    """The first lines that cleaning changes, before and after, each with its file."""
    return list(islice(_changed_lines(plan), EXAMPLES)) if plan.settings.clean else []


def _changed_lines(plan: Plan) -> Iterator[str]:
    rules = plan.settings.read_rules
    rules = replace(rules, max_document_bytes=AT_ONCE, long_line=min(rules.long_line, AT_ONCE))
    for source in plan.sources[:LOOKED_AT]:
        if source.kind == "parquet" or is_remote(source.path):
            continue  # whose beginning is not read in a moment
        is_cut = source.compression is None and source.kind in ("text", "jsonl")
        unit = Unit(0, 0, min(source.size, AT_ONCE) if is_cut else source.size)
        chunks = read_unit(source, unit, rules, cuts=AT_CHARACTERS, chunk_bytes=AT_ONCE)
        with suppress(BadInputError):  # whoever reads all of it reports it
            for chunk in islice(chunks, 1):
                before = [line for text in chunk.texts for line in text.split(b"\n")]
                for line, cleaned in zip(before, clean(before).texts, strict=True):
                    if cleaned and cleaned != line:
                        yield f"{source.name}: {_change(line.decode(), cleaned.decode())}"


def _change(before: str, after: str) -> str:
    """Both, from a little before the first character that differs."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))
    start = 0 if same < SHOWN_CHARACTERS // 2 else same - SHOWN_CHARACTERS // 4
    return f"{_shown(before, start)} -> {_shown(after, start)}"


def _shown(text: str, start: int) -> str:
    stop = start + SHOWN_CHARACTERS
    left, right = "..." if start else "", "..." if len(text) > stop else ""
    return f'"{left}{one_line(text[start:stop])}{right}"'
