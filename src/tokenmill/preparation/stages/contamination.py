"""Copies of test items: found while texts are read, judged when all were read.

Each unit leaves its hits, `evals/N.hits`. One task then knows in how many documents each run of
words is, and leaves what goes, `evals/N.removed`; with `cut` the hits to cut, `evals/N.cuts`; with
`mark` what becomes a fact, `evals/N.marked`. Hits are found while documents are encoded; only `cut`
reads the text once before, since it must know.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.removals import EVALS, numbers_of, set_names, unit_of, write_rows
from tokenmill.preparation.stages.unit_text import naming_source, text_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import Workspace, read_once
from tokenmill.text.evals.items import read_passages
from tokenmill.text.evals.judge import Found, judge
from tokenmill.text.evals.known_runs import KnownRuns
from tokenmill.text.filters.rule import NOTHING, REMOVED
from tokenmill.text.near.word_runs import find_words
from tokenmill.text.reading.chunks import Chunk

FOLDER = EVALS
RUNS_FILE = f"{FOLDER}/runs.npz"
ITEMS_FILE = f"{FOLDER}/items.json"
CONTAMINATED = "contaminated"
"""The fact that `mark` keeps: the test set, and the line of the item."""
HIT = np.dtype(
    [
        ("number", "<u4"),  # of the document in its unit
        ("word", "<u4"),  # the first one
        ("run", "<u4"),  # of the words that were found, in the list of all
    ]
)
_ORDINAL_BITS = 32


def keep_test_sets(plan: Plan) -> None:
    """Read the test sets of a plan, and leave their runs of words for the tasks."""
    settings = plan.settings
    assert isinstance(settings.decontaminate, str)
    passages = list(read_passages(settings.decontaminate, settings.decontaminate_fields))
    known = KnownRuns.of(passages, settings.decontaminate_words)
    owners = [[passage.test_set, passage.item] for passage in passages]
    plan.workspace.keep(RUNS_FILE, known.to_bytes())
    plan.workspace.keep(ITEMS_FILE, orjson.dumps(owners))


def load_runs(plan: Plan) -> KnownRuns:
    """The runs of words that are looked for."""
    return _load_runs(plan.workspace.place)


@read_once(RUNS_FILE)
def _load_runs(_: Workspace, data: bytes) -> KnownRuns:
    return KnownRuns.from_bytes(data)


class HitsRecord:
    """Writes the hits of one unit, while its documents are read."""

    def __init__(self, plan: Plan, unit: int, task: ExitStack) -> None:
        self._known = load_runs(plan)
        self.name = f"{unit}.hits"
        self._file = task.enter_context(ExitStack())
        self._hits = self._file.enter_context(plan.workspace.new(FOLDER, self.name))

    def add(self, chunk: Chunk) -> None:
        """Look for items in the texts of a chunk."""
        hits = self._known.find(chunk.texts)
        if len(hits):
            hits[:, 0] = chunk.numbers[hits[:, 0]]
            self._hits.write(hits.astype("<u4").view(HIT).data)

    def close(self) -> None:
        self._file.close()


def find_hits(out_dir: str, unit: int, lines: Any) -> Receipt:
    """Task: leave the hits of a unit before it is encoded."""
    plan = load_plan(out_dir)
    num_bytes = 0
    with naming_source(plan, unit), ExitStack() as task:
        record = HitsRecord(plan, unit, task)
        for chunk in plan.workspace.noting(unit, text_of(plan, unit, lines)):
            record.add(chunk)
            num_bytes += chunk.bytes_in
        record.close()
    counts = {"bytes_in": num_bytes}
    return plan.workspace.leave_receipt(FOLDER, str(unit), [record.name], {"counts": counts})


def judge_hits(out_dir: str, _number: int = 0) -> Receipt:
    """Task: decide which documents hold a test item, and leave what is to be done with them."""
    plan = load_plan(out_dir)
    known = load_runs(plan)
    owners = orjson.loads(plan.workspace.read(ITEMS_FILE))
    per_unit = [plan.workspace.load(FOLDER, f"{n}.hits", HIT) for n in range(len(plan.units))]
    units = np.repeat(np.arange(len(per_unit)), [len(hits) for hits in per_unit])
    hits = np.concatenate(per_unit)
    documents = units << _ORDINAL_BITS | hits["number"]
    found = judge(known, documents, hits["run"].astype(np.int64))
    action = plan.settings.on_contaminated
    if action == "cut":
        files = write_rows(plan, FOLDER, "cuts", units[found.counts], hits[found.counts])
    else:
        kind = {"drop": "removed", "mark": "marked"}[action]
        rows = _as_removed(plan, found, owners)
        files = write_rows(plan, FOLDER, kind, found.documents >> _ORDINAL_BITS, rows)
    facts = {"report": _report(plan, known, found, owners)}
    return plan.workspace.leave_receipt(FOLDER, "judged", files, facts)


def _as_removed(plan: Plan, found: Found, owners: list[tuple[str, int]]) -> np.ndarray:
    """Return a row of REMOVED for each document; its value is the line of the item."""
    rows = np.zeros(len(found.documents), REMOVED)
    rows["number"] = found.documents & ((1 << _ORDINAL_BITS) - 1)
    rows["kept_in"] = NOTHING
    names = set_names(plan)
    items = [owners[passage] for passage in found.passages.tolist()]
    rows["reason"] = [names.index(name) for name, _ in items]
    rows["value"] = [item for _, item in items]
    return rows


def _report(
    plan: Plan, known: KnownRuns, found: Found, owners: list[tuple[str, int]]
) -> dict[str, dict[str, int]]:
    """By test set: items, those too short to look for, those found, and documents that hold one."""
    looked_for = set(known.passages.tolist())
    all_found = set(found.all_passages.tolist())
    report = {}
    for name in set_names(plan):
        own = [number for number, (test_set, _) in enumerate(owners) if test_set == name]
        items = {owners[number][1] for number in own}
        long_enough = {owners[number][1] for number in own if number in looked_for}
        held = {owners[number][1] for number in own if number in all_found}
        documents = [owners[number][0] == name for number in found.passages.tolist()]
        report[name] = {
            "items": len(items),
            "too_short": len(items - long_enough),
            "items_found": len(held),
            "documents": sum(documents),
        }
    return report


def report_of(plan: Plan) -> dict[str, dict[str, int]]:
    """The report, when it is known."""
    receipt = plan.workspace.receipt(FOLDER, "judged") or {}
    report: dict[str, dict[str, int]] = receipt["report"]
    return report


def joined_reports(
    before: dict[str, dict[str, int]], added: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """The report of a dataset with what is added to it: of items found, at least so many."""
    together = {}
    for name, report in added.items():
        known = before.get(name, dict.fromkeys(report, 0))
        documents = known["documents"] + report["documents"]
        found = max(known["items_found"], report["items_found"])
        together[name] = {**report, "items_found": found, "documents": documents}
    return together


def marks_of(plan: Plan, part: int, which: np.ndarray) -> list[str | None]:
    """Return `SET:LINE` for those of some documents of a part that hold an item."""
    rows = plan.workspace.load(FOLDER, f"{unit_of(plan, part)}.marked", REMOVED)
    names = set_names(plan)
    marks = {
        number: f"{names[reason]}:{line:.0f}"
        for number, reason, line in rows[["number", "reason", "value"]].tolist()
    }
    return [marks.get(number) for number in numbers_of(plan, part)[which].tolist()]


def without_passages(plan: Plan, unit: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield chunks without the passages of test items."""
    known = load_runs(plan)
    hits = plan.workspace.load(FOLDER, f"{unit}.cuts", HIT)
    for chunk in chunks:
        (where,) = np.nonzero(np.isin(chunk.numbers, hits["number"]))
        texts = list(chunk.texts)
        for at in where.tolist():
            own = hits[hits["number"] == chunk.numbers[at]].tolist()
            words = sorted((word, word + known.size_of(run)) for _, word, run in own)
            texts[at] = cut_words(texts[at], words)
        changed = {**chunk.changed}
        if len(where):
            changed["decontaminate: passages cut"] = len(where)
        yield replace(chunk, texts=texts, changed=changed)


def cut_words(text: bytes, ranges: list[tuple[int, int]]) -> bytes:
    """Cut some words out of a text, with what is between them: sorted ranges of their numbers.

    >>> cut_words(b"One, two, three, four, five.", [(1, 3), (2, 4)])
    b'One, five.'
    """
    places = list(find_words(text))
    left = []
    end = 0
    done = 0
    for first, last in ranges:
        first = max(first, done)
        if first < last:
            left.append(text[end : places[first][0]])
            end = places[last][0] if last < len(places) else places[last - 1][1]
            done = last
    return b"".join([*left, text[end:]])
