"""Stop where near-duplicates are more than half of a source: a template may be all they share.

Sources of fewer than 20 documents count together, as small files do.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tokenmill.base.human import one_line
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import encoded_units, load_parts
from tokenmill.preparation.stages.placed_documents import PlacedDocuments
from tokenmill.preparation.stages.removals import NEAR, numbers_of, unit_of
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
    found = list(_removed_by_source(plan))
    sizes, read, gone = Counter[int](), Counter[int](), Counter[int]()
    for _, source, num_read, _ in found:
        sizes[source] += num_read
    examples: dict[int, tuple[int, np.ndarray]] = {}
    for unit, source, num_read, rows in found:
        group = source if sizes[source] >= FEW_DOCUMENTS else _SMALL_SOURCES
        read[group] += num_read
        gone[group] += len(rows)
        if len(rows):
            examples.setdefault(group, (unit, rows[:EXAMPLES]))
    for group, num_read in read.items():
        if num_read >= FEW_DOCUMENTS and 2 * gone[group] > num_read:
            small = f"the files of fewer than {FEW_DOCUMENTS} documents"
            name = small if group == _SMALL_SOURCES else plan.sources[group].name
            shown = "".join(_shown(plan, first, *examples[group]))
            raise PrepareError(
                f"near-duplicates are {gone[group]:,} of the {num_read:,} documents of {name}, "
                f"more than half{shown}",
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


def _shown(plan: Plan, first: int, unit: int, rows: np.ndarray) -> Iterator[str]:
    """The beginnings of some documents, and of what stays instead."""
    for row in rows:
        text = _beginning(plan, first, unit, int(row["number"]))
        kept = _beginning(plan, first, int(row["kept_in"]), int(row["kept"]))
        yield f"\n  {row['value']:.2f} alike: {text}\n              and: {kept}"


def _beginning(plan: Plan, first: int, unit: int, number: int) -> str:
    """The beginning of a document of a unit, or of the dataset that is added to."""
    owner, position = in_shard(unit), number
    for part in range(len(load_parts(plan.workspace.place))) if unit >= 0 else ():
        if unit_of(plan, part) == unit:
            for at in np.flatnonzero(numbers_of(plan, part) == number).tolist():
                owner, position = first + part, at
    (text,) = PlacedDocuments(plan, first).texts_in(owner, np.array([position]))
    return f'"{one_line(text[:_SHOWN].decode("utf-8", "ignore"))}"'
