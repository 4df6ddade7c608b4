"""Stop where near-duplicates are more than half of a source: a template may be all they share.

Sources of fewer than 20 documents count together, as small files do.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.base.human import one_line
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import encoded_units, load_parts
from tokenmill.preparation.stages.removals import NEAR, numbers_of
from tokenmill.preparation.stages.placed_documents import PlacedDocuments
from tokenmill.text.filters.rule import in_shard

ALLOWED = "heavy-dedup-allowed"
"""File of the workspace: the user has seen the examples."""
FEW_DOCUMENTS = 20
EXAMPLES = 3
_SHOWN = 70  # bytes of a document
_SMALL_SOURCES = -1


def check_heavy(plan: Plan, first: int) -> None:
    """Raise if a source loses more than half of its documents, unless that is allowed."""
    if plan.workspace.has(ALLOWED):
        return
    read, gone = Counter[int](), Counter[int]()
    examples: dict[int, tuple[int, Any]] = {}
    for unit, source, num_read, rows in _removed_by_source(plan):
        read[source] += num_read
        gone[source] += len(rows)
        if len(rows):
            examples.setdefault(source, (unit, rows[:EXAMPLES]))
    for source in [source for source in read if read[source] < FEW_DOCUMENTS]:
        read[_SMALL_SOURCES] += read.pop(source)
        gone[_SMALL_SOURCES] += gone.pop(source)
        examples.setdefault(_SMALL_SOURCES, examples.get(source, (0, [])))
    for source in read:
        if read[source] >= FEW_DOCUMENTS and 2 * gone[source] > read[source]:
            small = f"the files of fewer than {FEW_DOCUMENTS} documents"
            name = small if source == _SMALL_SOURCES else plan.sources[source].name
            shown = "".join(_shown(plan, first, *examples[source]))
            raise PrepareError(
                f"near-duplicates are {gone[source]:,} of the {read[source]:,} documents of "
                f"{name}, more than half{shown}",
                hint="if they are to go, start again with run=Run(allow_heavy_dedup=True); if they "
                "only share a template, raise near_similarity",
                source=name,
            )


def _removed_by_source(plan: Plan) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """Yield for each file of each unit: unit, source, documents read, and rows of REMOVED."""
    for unit, (where, encoded) in enumerate(zip(plan.units, encoded_units(plan), strict=True)):
        texts = encoded.rules.get("texts", [])
        rows = NEAR.rows(plan.workspace, unit)
        edges = np.append(0, np.cumsum(texts, dtype=np.int64))
        for file, num_read in enumerate(texts):
            start, stop = rows["number"].searchsorted(edges[file : file + 2])
            yield unit, where.source + file, num_read, rows[start:stop]


def _shown(plan: Plan, first: int, unit: int, rows: Any) -> Iterator[str]:
    """The beginnings of some documents, and of what stays instead."""
    for row in rows:
        text = _beginning(plan, first, unit, int(row["number"]))
        kept = _beginning(plan, first, int(row["kept_in"]), int(row["kept"]))
        yield f"\n  {row['value']:.2f} alike: {text}\n              and: {kept}"


def _beginning(plan: Plan, first: int, unit: int, number: int) -> str:
    documents = PlacedDocuments(plan, first)
    if unit < 0:
        (text,) = documents.texts_in(in_shard(unit), np.array([number]))
        return _quoted(text)
    for part, described in enumerate(load_parts(plan.workspace.place)):
        if described.files[0].unit == unit:
            (positions,) = np.nonzero(numbers_of(plan, part) == number)
            if len(positions):
                return _quoted(documents.texts_in(first + part, positions)[0])
    raise AssertionError("a document that went is in a part of its unit")


def _quoted(text: bytes) -> str:
    return f'"{one_line(text[:_SHOWN].decode("utf-8", "ignore"))}"'
