"""assemble(shard): copy kept documents into the shard, hash it, read it back, rename.

Which tokens a shard holds is arithmetic on the totals of the parts (`shards/layout.py`), so each
shard is one task. For `pretokenize.py`, all ids go into one `.npy` instead.
"""

import io
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.preparation.planning.plan import CHUNK_BYTES, Plan, load_plan
from tokenmill.preparation.stages.decide import Layout, decisions_on, load_layout
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import Part
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.shards.layout import ShardPlan, parts_between
from tokenmill.shards.writer import ShardWriter, check_read_back

TOKENS_AT_ONCE = 1 << 18  # what fits a cache is copied and hashed there


def assemble_shard(out_dir: str, number: int) -> Receipt:
    """Task: write one shard and its index; return its entry in the manifest."""
    plan = load_plan(out_dir)
    layout = load_layout(out_dir)
    shard = layout.shards[number]
    out = plan.workspace.out_dir
    level = plan.settings.compression_level
    columns = plan.columns
    with ShardWriter(out, shard.file, plan.dtype, level=level, columns=columns) as writer:
        ends, cut = _write_tokens(plan, layout, shard, writer)
        entry = writer.finish(ends)
    known = {f"../../{file.file}": (file.num_bytes, file.xxh3_128) for file in entry.files}
    facts = {"split": shard.split, "cut_document": cut, "entry": entry.to_json()}
    if plan.destination is not None:
        from tokenmill.preparation.workspace.remote_target import upload_shard

        facts |= upload_shard(plan, entry)
        known = {}
    return plan.workspace.leave_receipt("shards", str(number), known, facts)


def _write_tokens(
    plan: Plan, layout: Layout, shard: ShardPlan, writer: ShardWriter
) -> tuple[np.ndarray, bool]:
    """Write the ids; return where documents end, and whether the end of the shard cuts one."""
    ends = [np.empty(0, np.int64)]
    length = shard.stop - shard.start
    names = [column.name for column in plan.columns]
    for part in parts_between(layout.part_starts[shard.axis], shard.start, shard.stop):
        begins = int(layout.part_starts[shard.axis][part]) - shard.start
        described = load_parts(plan.workspace.place)[part]
        lengths = described.rows(plan)["length"].astype(np.int64)
        kept = decisions_on(plan, part, layout.repeated, by_hash=layout.by_hash) == shard.axis
        if not kept.any():
            continue
        place = begins  # in the shard; before it begins, or after it ends, nothing is written
        for tables in _kept_tokens(plan, described, lengths, kept):
            inside = slice(max(0, -place), max(0, length - place))
            ids, *values = (table[inside] for table in tables)
            writer.write(ids, dict(zip(names, values, strict=True)))
            place += len(tables[0])
        stops = begins + np.cumsum(lengths[kept])
        ends.append(stops[(stops > 0) & (stops <= length)])
    assert writer.num_tokens == length, (shard, writer.num_tokens)
    found = np.concatenate(ends)
    cut = shard.cuts_document and (not len(found) or bool(found[-1] != writer.num_tokens))
    if cut:
        found = np.append(found, writer.num_tokens)  # the held-out part begins inside a document
    return found, cut


def _kept_tokens(
    plan: Plan, part: Part, lengths: np.ndarray, kept: np.ndarray
) -> Iterator[list[np.ndarray]]:
    """Yield ids and columns of the documents of a part that are kept, some tokens at a time."""
    if kept.all():
        for tables in part.tables(plan):
            for start in range(0, len(tables[0]), TOKENS_AT_ONCE):
                yield [table[start : start + TOKENS_AT_ONCE] for table in tables]
        return
    (mapped,) = part.tables(plan)  # of several documents
    tables = list(map(np.asarray, mapped))
    bounds = np.append(0, np.cumsum(lengths))
    edges = bounds[np.flatnonzero(np.diff(kept, prepend=False, append=False))]
    runs = edges.reshape(-1, 2).tolist()
    # The first run that reaches beyond 0, TOKENS_AT_ONCE, 2 * TOKENS_AT_ONCE...
    firsts = edges[1::2].searchsorted(np.arange(0, len(tables[0]), TOKENS_AT_ONCE), side="right")
    for first, last in pairwise(np.unique(np.append(firsts, len(runs))).tolist()):
        some = runs[first:last]
        yield [np.concatenate([table[i:j] for i, j in some]) for table in tables]


def write_npy(plan: Plan, path: Path, dtype: np.dtype[Any]) -> int:
    """Write the ids of the whole text as NumPy saves them, read them back, return their number."""
    parts = load_parts(plan.workspace.place)
    num_tokens = sum(part.num_tokens for part in parts)
    if num_tokens and plan.settings.separator is None:
        num_tokens -= 1  # one document: the end-of-text id that closes it is left out
    header = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (num_tokens,)}
    np.lib.format.write_array_header_1_0(header, shape)
    digest = xxhash.xxh3_128(header.getvalue())
    left = num_tokens
    with new_file(path, durable=True) as file:
        file.write(header.getvalue())
        for ids in chain.from_iterable(part.token_arrays(plan) for part in parts):
            ids = ids[:left]
            left -= len(ids)
            for start in range(0, len(ids), CHUNK_BYTES):
                block = np.ascontiguousarray(ids[start : start + CHUNK_BYTES], dtype)
                file.write(block.data)
                digest.update(block.data)
    check_read_back(path, digest.hexdigest())
    return num_tokens
