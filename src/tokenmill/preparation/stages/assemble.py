"""assemble(shard): copy kept documents into the shard, hash it, read it back, rename.

Which tokens a shard holds is arithmetic on the totals of the parts (`shards/layout.py`), so every
shard is a task of its own.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.decide import Layout, decisions_on, load_layout
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.shards.layout import ShardPlan, parts_between
from tokenmill.shards.writer import ShardWriter

TOKENS_AT_ONCE = 1 << 18


def assemble_shard(out_dir: str, number: int) -> Receipt:
    """Task: write one shard and its index; return its entry in the manifest."""
    plan = load_plan(out_dir)
    layout = load_layout(out_dir)
    shard = layout.shards[number]
    out = plan.workspace.out_dir
    level = plan.settings.compression_level
    with ShardWriter(out, shard.file, plan.dtype, level=level) as writer:
        ends, cut = _write_tokens(plan, layout, shard, writer)
        entry = writer.finish(ends)
    known = {f"../../{file.file}": (file.num_bytes, file.xxh3_128) for file in entry.files}
    facts = {"split": shard.split, "cut_document": cut, "entry": entry.to_json()}
    if plan.destination is not None:
        from tokenmill.preparation.workspace.uploads import upload_shard

        facts |= upload_shard(plan, entry)
        known = {}
    return plan.workspace.leave_receipt("shards", str(number), known, facts)


def _write_tokens(
    plan: Plan, layout: Layout, shard: ShardPlan, writer: ShardWriter
) -> tuple[np.ndarray, bool]:
    """Write the ids; return where documents end, and whether the end of the shard cuts one."""
    ends = [np.empty(0, np.int64)]
    for part in parts_between(layout.part_starts[shard.axis], shard.start, shard.stop):
        begins = int(layout.part_starts[shard.axis][part]) - shard.start
        described = load_parts(plan.workspace.out_dir)[part]
        lengths = described.rows(plan)["length"].astype(np.int64)
        kept = decisions_on(plan, part, layout.decision) == shard.axis
        runs = _runs_of_tokens(lengths, kept, begins, shard.stop - shard.start)
        for ids in _joined(_ids_of_runs(described.token_arrays(plan), runs)):
            writer.write(ids)
        stops = begins + np.cumsum(lengths[kept])
        ends.append(stops[(stops > 0) & (stops <= shard.stop - shard.start)])
    assert writer.num_tokens == shard.stop - shard.start, (shard, writer.num_tokens)
    found = np.concatenate(ends)
    cut = shard.ends_split and (not len(found) or bool(found[-1] != writer.num_tokens))
    if cut:
        found = np.append(found, writer.num_tokens)  # the held-out part begins inside a document
    return found, cut


def _joined(runs: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same ids in fewer arrays: where every tenth document is held out, runs are short."""
    some, size = list[np.ndarray](), 0
    for run in runs:
        some.append(run)
        size += len(run)
        if size >= TOKENS_AT_ONCE:
            yield np.concatenate(some) if len(some) > 1 else run
            some, size = [], 0
    if some:
        yield np.concatenate(some)


def _ids_of_runs(arrays: Iterable[np.ndarray], runs: Iterable[slice]) -> Iterator[np.ndarray]:
    """The ids of some ascending runs of one sequence, which comes as several arrays in order."""
    remaining = iter(arrays)
    ids = np.asarray(next(remaining))
    first = 0  # where `ids` begin in the sequence
    for run in runs:
        start = run.start
        while start < run.stop:
            if start >= first + len(ids):
                first += len(ids)
                ids = np.asarray(next(remaining))
                continue
            own = ids[start - first : run.stop - first]
            yield own
            start += len(own)


def _runs_of_tokens(
    lengths: np.ndarray, kept: np.ndarray, begins: int, length: int
) -> Iterator[slice]:
    """Stretches of a part's tokens that belong into [0, length) of the shard, in order.

    `begins` is where the first kept token of the part is, relative to the shard.
    """
    stops = np.cumsum(lengths)
    starts = stops - lengths
    edges = np.flatnonzero(np.diff(np.concatenate(([0], kept.view(np.int8), [0]))))
    place = begins
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        start, stop = int(starts[first]), int(stops[last - 1])
        from_start = max(0, -place)
        to_stop = min(stop - start, length - place)
        if to_stop > from_start:
            yield slice(start + from_start, start + to_stop)
        place += stop - start
