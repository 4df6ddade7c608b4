"""What rules came to in all units: accounts, and the file `removed-HASH.jsonl` of the dataset.

Its first line has the reasons, each line after it one document that was left out:

    [source, document, reason, value]                 or, where another document stays instead,
    [source, document, reason, value, where, kept]

`source` is a position in the list of sources, `document` the number of the document among those
that can be read from that source, `reason` a position in the list of reasons, `value` what the rule
found, or null. `where` is a source; or the name of a shard of the dataset that was added to, and
`kept` is then the number among the documents that end in this shard. No text is in it: the input
has that. Lines are in the order of the input.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.accounts import why_dropped
from tokenmill.preparation.stages.decide import DROPPED, decisions_on, load_layout
from tokenmill.preparation.stages.encode import EncodedUnit, encoded_units, load_parts
from tokenmill.preparation.stages.parts import FOLDER
from tokenmill.preparation.stages.removals import late_removals, removed_late, rows_that_go
from tokenmill.shards.manifest import FileEntry, Manifest
from tokenmill.text.filters.rule import NONE_REMOVED, NOTHING, REMOVED, Removed, in_shard

NAME = "removed.jsonl"
_ROWS_AT_ONCE = 1 << 16
_WORTH_A_NOTE = 0.1


def rule_accounts(plan: Plan) -> dict[str, dict[str, int]]:
    """What rules changed; documents, and bytes of text, that each of them left."""
    changed, documents, num_bytes = Counter[str](), Counter[str](), Counter[str]()
    for unit in encoded_units(plan):
        changed.update(unit.rules.get("changed", {}))
        for step, left in unit.rules.get("left", {}).items():
            documents[step] += left["documents"]
            num_bytes[step] += left["bytes"]
    counts = {"changed": changed, "documents_left": documents, "bytes_left": num_bytes}
    return {name: dict(counter) for name, counter in counts.items()}


def slow_map(plan: Plan) -> str | None:
    """Return a sentence about the time that the user's function took, if that is much."""
    seconds = all_seconds = 0.0
    for unit in encoded_units(plan):
        if unit.rules:
            seconds += unit.rules["seconds"].get("map", 0.0)
            in_rules = sum(unit.rules["seconds"].values())
            all_seconds += max(unit.rules["all_seconds"], in_rules)
    share = seconds / max(all_seconds, 1e-9)
    if share < _WORTH_A_NOTE:
        return None
    return (
        f"the function {plan.settings.map} took {share:.0%} of the time of reading, rules and "
        f"encoding ({seconds:,.1f} s of {all_seconds:,.1f} s, over all workers)"
    )


def write_record(plan: Plan, previous: Manifest | None, num_known: int, before: bytes) -> FileEntry:
    """Write the list of all documents that were left out.

    In the dataset that is added to were `num_known` sources, and `before` is its own list.
    """
    units = list(encoded_units(plan))
    places = _Places(plan, units, previous, num_known)
    out = plan.workspace.out_dir
    header, _, old = before.partition(b"\n")
    names: list[str] = orjson.loads(header)["reasons"] if header else []
    late = _dropped_late(plan)
    added = {reason for unit in units for reason in unit.rules.get("reasons", [])}
    added |= {reason for some in late.values() for removed in some for reason in removed.reasons}
    names += sorted(added - set(names))
    scratch = plan.workspace.spool / NAME
    digest = xxhash.xxh3_128()

    def write(file: IO[bytes], data: bytes) -> None:
        file.write(data)
        digest.update(data)

    with new_file(scratch) as file:
        write(file, orjson.dumps({"reasons": names}) + b"\n")
        write(file, old)
        for number, unit in enumerate(units):
            for rows in _removed_from(plan, number, unit, late.get(number, []), names):
                write(file, places.lines(number, rows))
        num_bytes = file.tell()
    name = f"{plan.folder}removed-{digest.hexdigest()[:16]}.jsonl"
    (out / plan.folder).mkdir(parents=True, exist_ok=True)
    scratch.replace(out / name)
    return FileEntry(name, num_bytes, digest.hexdigest())


def _removed_from(
    plan: Plan, number: int, unit: EncodedUnit, late: list[Removed], names: list[str]
) -> Iterator[np.ndarray]:
    """Yield what was left out of a unit, by number; reasons are positions in `names`."""
    if not unit.rules:
        return
    together = Removed(NONE_REMOVED.rows, tuple(names))
    rows = plan.workspace.load(FOLDER, f"{number}.removed", REMOVED)
    for removed in (Removed(rows, tuple(unit.rules["reasons"])), *late):
        together += removed
    rows = np.sort(together.rows, order="number")
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]


def _dropped_late(plan: Plan) -> dict[int, list[Removed]]:
    """What was left out after all documents were encoded, by unit: those that are repeated."""
    found = defaultdict[int, list[Removed]](list)
    if late_removals(plan):
        found.update({unit: list(removed_late(plan, unit)) for unit in range(len(plan.units))})
    if not plan.compares_documents:
        return found
    layout = load_layout(plan.workspace.place)
    first = Counter[int]()  # encoded documents of the unit in earlier parts
    for number, part in enumerate(load_parts(plan.workspace.place)):
        unit = part.files[0].unit
        decisions = decisions_on(plan, number, layout.repeated, by_hash=layout.by_hash)
        is_repeated = (decisions == DROPPED) & ~rows_that_go(plan, number)
        dropped = np.flatnonzero(is_repeated) + first[unit]
        first[unit] += part.num_documents
        rows = np.zeros(len(dropped), REMOVED)
        numbers = plan.workspace.load(FOLDER, f"{unit}.numbers", "<u4")
        rows["number"] = numbers[dropped]
        rows["value"] = np.nan
        rows["kept_in"] = NOTHING
        if len(rows):
            found[unit].append(Removed(rows, (why_dropped(plan, part),)))
    return found


class _Places:
    """Where documents are in their sources, by unit and number."""

    def __init__(
        self, plan: Plan, units: list[EncodedUnit], previous: Manifest | None, num_known: int
    ) -> None:
        self._sources = [where.source + num_known for where in plan.units]
        self._starts: list[np.ndarray] = []  # the first number of each file of the unit
        self._before: list[int] = []  # documents of the first file in units before this one
        self._shards = [] if previous is None else [shard.file for shard in previous.shards]
        read = Counter[int]()
        for where, unit in zip(plan.units, units, strict=True):
            texts = unit.rules.get("texts", [0])
            self._starts.append(np.append(0, np.cumsum(texts))[:-1])
            self._before.append(read[where.source])
            read[where.source] += texts[0]

    def of(self, unit: int, number: int) -> tuple[int, int]:
        """Return the source, and the number of the document among all of that source."""
        starts = self._starts[unit]
        file = int(starts.searchsorted(number, side="right")) - 1
        before = self._before[unit] if file == 0 else 0
        return self._sources[unit] + file, number - int(starts[file]) + before

    def lines(self, unit: int, rows: np.ndarray) -> bytes:
        return b"".join(orjson.dumps(self._entry(unit, row)) + b"\n" for row in rows.tolist())

    def _entry(self, unit: int, row: tuple[Any, ...]) -> list[Any]:
        number, reason, value, kept_in, kept = row
        entry = [*self.of(unit, number), reason, value]
        if kept_in >= 0:
            entry += self.of(kept_in, kept)
        elif kept_in != NOTHING:
            entry += [self._shards[in_shard(kept_in)], kept]
        return entry
