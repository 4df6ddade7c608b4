"""facts: where the documents of a split come from, and their fields that are kept, as one file.

Encoding left them next to the parts (`kept_facts.py`). Types are found first, over all parts of all
splits: what a unit happened to hold decides nothing. Lines are counted from the beginning of their
file only here, where those of all units are known.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from tokenmill.base.arrow import OWN_NAMES
from tokenmill.errors import SettingsMismatchError
from tokenmill.preparation.planning.plan import PREVIOUS_FILE, Plan, load_plan
from tokenmill.preparation.stages.contamination import CONTAMINATED, marks_of
from tokenmill.preparation.stages.decide import Layout, decisions_on, load_layout
from tokenmill.preparation.stages.encode import encoded_units, load_parts
from tokenmill.preparation.stages.token_inputs import open_split
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.shards.facts_file import NAME, FactsFileWriter, common_types
from tokenmill.shards.manifest import Manifest
from tokenmill.text.reading.kept_facts import ORIGIN


def assemble_facts(out_dir: str, number: int) -> Receipt:
    """Task: write the facts of one split."""
    plan = load_plan(out_dir)
    layout = load_layout(out_dir)
    split = layout.splits[number]
    all_facts = FactsOfParts(plan)
    name, old = NAME, None
    types = chain(all_facts.values())
    if plan.previous is not None:
        name, old, empty = _previous(plan, split, all_facts)
        types = chain([(empty, str)], types)
    kept = common_types(types)
    if plan.marks_test_items:
        kept |= {CONTAMINATED: all_facts.marks([]).type}
    with FactsFileWriter(plan.workspace.out_dir, f"{plan.folder}{split}/{name}", kept) as writer:
        for batch in old.batches() if old is not None else ():
            writer.add(batch)
        for part, which in documents_of(plan, layout, split):
            writer.add(all_facts.table(part, which, list(kept)))
        entry = writer.finish()
    known = {f"../../{entry.file}": (entry.num_bytes, entry.xxh3_128)}
    facts: dict[str, Any] = {"split": split, "entry": entry.to_json()}
    if plan.destination is not None:
        from tokenmill.preparation.workspace.remote_target import upload_files

        facts |= upload_files(plan, [entry.file])
        known = {}
    return plan.workspace.leave_receipt("facts", str(number), known, facts)


def documents_of(plan: Plan, layout: Layout, split: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield parts with a mask of those documents that are in this split, in order."""
    shards = [shard for shard in layout.shards if shard.split == split]
    axis, start, stop = shards[0].axis, shards[0].start, shards[-1].stop
    for number, part in enumerate(load_parts(plan.workspace.place)):
        which = decisions_on(plan, number, layout.repeated, by_hash=layout.by_hash) == axis
        lengths = part.rows(plan)["length"].astype(np.int64)
        ends = layout.part_starts[axis][number] + np.cumsum(np.where(which, lengths, 0))
        which &= (ends > start) & (ends - lengths < stop)  # the held-out end may cut a document
        if which.any():
            yield number, which


def _previous(plan: Plan, split: str, facts: "FactsOfParts") -> tuple[str, Any, Any]:
    """Return the name of the new file; and of the dataset that is added to, the facts of this
    split, if it has it, and an empty table with the types of what it keeps."""
    manifest = Manifest.parse(plan.workspace.read(PREVIOUS_FILE))
    number = sum(len(entry.shards) for entry in manifest.splits.values())
    known = next(name for name, entry in manifest.splits.items() if entry.facts)
    where = plan.destination or str(plan.workspace.out_dir)
    empty = open_split(where, known, plan.previous).all_facts.schema.empty_table()
    theirs = [name for name in empty.column_names if name not in OWN_NAMES]
    fields = plan.settings.read_rules.kept_fields
    ours = [] if fields is None else list(fields.paths)
    if plan.settings.map is not None:
        seen = {name: None for batch, _ in facts.values() for name in batch.schema.names}
        ours += [name for name in seen if name not in ours]
    if plan.marks_test_items:
        ours.append(CONTAMINATED)
    if sorted(theirs) != sorted(ours):
        raise SettingsMismatchError(
            f"the dataset has the facts {', '.join(theirs) or 'of origin alone'}, and what is "
            f"added to it {', '.join(ours) or 'of origin alone'}",
            hint="name the same fields: keep='url,score'",
        )
    empty = empty.select(theirs)
    if split not in manifest.splits:
        return NAME, None, empty
    old = open_split(where, split, plan.previous).all_facts
    return f"documents_{number:05d}.parquet", old, empty


class FactsOfParts:
    """The facts of all parts of a preparation."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._parts = load_parts(plan.workspace.place)
        self._lines = _lines_before(plan)
        self._is_text = np.array([source.kind == "text" for source in plan.sources])

    def values(self) -> Iterator[tuple[Any, Callable[[int], str]]]:
        """Yield all values that are kept, with what says where each row is."""
        for number, part in enumerate(self._parts if self._plan.settings.keeps_values else ()):
            for batch in part.facts(self._plan).batches:
                yield batch.drop_columns([*ORIGIN]), partial(self._where, number, batch)

    def _where(self, part: int, batch: Any, row: int) -> str:
        source, place = (batch[name][row].as_py() for name in ORIGIN)
        place += self._lines[self._parts[part].files[0].unit]
        kind = self._plan.sources[source].kind
        name = self._plan.sources[source].name
        return f"{name}:{place:,}" if kind == "jsonl" else f"{name}, row {place:,}"

    def table(self, number: int, which: np.ndarray, kept: list[str]) -> Any:
        """Return the facts of some documents of a part: those of all, and those that are kept."""
        import pyarrow as pa

        part = self._parts[number]
        batches = part.facts(self._plan).chosen(which).batches
        values = pa.concat_tables([*map(_as_table, batches)], promote_options="permissive")
        values = values.combine_chunks()
        codes, sources = np.unique(values["source"].to_numpy(), return_inverse=True)
        names = [self._plan.sources[code].name for code in codes.tolist()]
        is_text = self._is_text[codes][sources]
        places = values["row"].to_numpy() + self._lines[part.files[0].unit]
        ids = np.ascontiguousarray(part.rows(self._plan)["hash"][which])
        columns = {
            **{name: values[name] for name in values.column_names},
            "source": pa.DictionaryArray.from_arrays(sources, names).cast(pa.string()),
            "row": pa.array(places, mask=is_text),
            "byte": pa.array(places, mask=~is_text),
            "id": pa.Array.from_buffers(pa.binary(16), len(ids), [None, pa.py_buffer(ids)]),
        }
        if self._plan.marks_test_items:
            columns[CONTAMINATED] = self.marks(marks_of(self._plan, number, which))
        return {name: pa.nulls(len(ids)) for name in kept} | columns  # a function may be silent

    def marks(self, values: list[str | None]) -> Any:
        """Return the column of marks of test items."""
        import pyarrow as pa

        return pa.array(values, pa.string())


def _as_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.table(batch)


def _lines_before(plan: Plan) -> list[int]:
    """Lines of the same JSONL file in the units before each unit."""
    before = []
    lines: dict[int, int] = {}
    for where, unit in zip(plan.units, encoded_units(plan), strict=True):
        is_cut = plan.sources[where.source].kind == "jsonl" and where.num_sources == 1
        before.append(lines.get(where.source, 0) if is_cut else 0)
        lines[where.source] = before[-1] + unit.counts.get("lines", 0)
    return before
