"""Examples for the summary: lines at the beginning of the input that cleaning changed."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tokenmill.base.human import one_line
from tokenmill.preparation.planning.limits import one_at_a_time
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.unit_text import UnitReader
from tokenmill.text.cleaning.clean import clean

EXAMPLES = 3
LOOKED_AT_BYTES = 64 << 10
SHOWN_CHARACTERS = 60


def changed_lines(plan: Plan) -> list[str]:
    """The first lines that cleaning changes, before and after, with the name of their file."""
    name = plan.sources_of(0)[0].name
    with one_at_a_time(plan.workspace) as on_large:
        chunk = UnitReader(replace(plan, chunk_bytes=LOOKED_AT_BYTES), 0, on_large).first_chunk()
    text = b"\n".join(chunk.texts)[:LOOKED_AT_BYTES]
    lines = text.decode("utf-8", "ignore").encode().split(b"\n")
    changes = (f"{name}: {change}" for change in _changes(lines))
    return list(islice(changes, EXAMPLES))


def _changes(lines: list[bytes]) -> Iterator[str]:
    for before, after in zip(lines, clean(lines).texts, strict=True):
        if after and before != after:
            yield _shown_change(before.decode(), after.decode())


def _shown_change(before: str, after: str) -> str:
    """Both, from a little before the first character that differs."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))
    start = 0 if same < SHOWN_CHARACTERS // 2 else same - SHOWN_CHARACTERS // 4
    return f"{_shown(before, start)} -> {_shown(after, start)}"


def _shown(text: str, start: int) -> str:
    stop = start + SHOWN_CHARACTERS
    left = "..." if start else ""
    right = "..." if len(text) > stop else ""
    return f'"{left}{one_line(text[start:stop])}{right}"'
