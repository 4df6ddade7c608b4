"""assemble(shard): copy kept documents into the shard, hash it, read it back, rename.

Which tokens a shard holds is arithmetic on the totals of the parts (`shards/layout.py`), so every
shard is a task of its own.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import keep, new_file
from tokenmill.errors import CorruptShardError
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.decide import Decision, fates_of
from tokenmill.preparation.stages.encoded import OPEN, read_rows, read_tokens
from tokenmill.preparation.stages.encoded_list import load_joined
from tokenmill.preparation.stages.lines import Searched
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.preparation.workspace.upload_shards import upload_shard
from tokenmill.preparation.workspace.work_folder import Workspace, remember
from tokenmill.shards.layout import ShardPlan, parts_between


@dataclass(frozen=True)
class Layout:
    """All shards to be, and where each part begins on each axis."""

    shards: list[ShardPlan]
    part_starts: list[np.ndarray]
    decision: Decision


def keep_layout(workspace: Workspace, layout: Layout) -> None:
    """Write the layout where the tasks find it."""
    found = {
        "shards": [asdict(shard) for shard in layout.shards],
        "part_starts": layout.part_starts,
        "decision": asdict(layout.decision),
    }
    data = orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
    keep(workspace.root / "layout.json", data)


@remember
def _load_layout(path: Path) -> Layout:
    found = orjson.loads(path.read_bytes())
    documents = found["decision"]["documents"]
    documents = None if documents is None else Searched(**documents)
    return Layout(
        [ShardPlan(**shard) for shard in found["shards"]],
        [np.array(starts, np.int64) for starts in found["part_starts"]],
        Decision(**{**found["decision"], "documents": documents}),
    )


def _receipt_name(out_dir: str, number: int) -> tuple[str, str]:
    layout = _load_layout(Workspace(out_dir).root / "layout.json")
    return "shards", layout.shards[number].file.replace("/", "-")


@leaves_receipt(_receipt_name)
def assemble_shard(out_dir: str, number: int) -> dict[str, Any]:
    """Task: write one shard and its index; return its entry in the manifest."""
    plan = load_plan(out_dir)
    layout = _load_layout(plan.workspace.root / "layout.json")
    shard = layout.shards[number]
    out = plan.workspace.out_dir
    index_file = shard.file.removesuffix(".bin") + ".ends"
    tokens_hash, ends, cut = _write_tokens(plan, layout, shard, out / shard.file)
    with new_file(out / index_file) as file:
        file.write(ends.astype("<u8").data)
    ends_hash = xxhash.xxh3_128_hexdigest(ends.astype("<u8").data)
    num_tokens = shard.stop - shard.start
    entry = {
        "file": shard.file,
        "tokens": num_tokens,
        "bytes": num_tokens * plan.dtype.itemsize,
        "xxh3_128": tokens_hash,
        "ends": {
            "file": index_file,
            "documents": len(ends),
            "bytes": 8 * len(ends),
            "xxh3_128": ends_hash,
        },
    }
    files = {f"../../{shard.file}": tokens_hash, f"../../{index_file}": ends_hash}
    facts = {"split": shard.split, "cut_document": cut, **entry}
    known = plan.workspace.sizes_and_hashes("shards", list(files))
    for at, expected in files.items():
        if (found := known[at][1]) != expected:
            raise CorruptShardError(
                f"{out / at[6:]} was written with hash {expected} but reads back as {found}",
                hint="the disk or the memory of this machine is failing; check it, then go on",
            )
    if plan.destination is not None:
        upload_shard(out, [shard.file, index_file], plan.destination)
        known = {}
    return plan.workspace.leave_receipt(*_receipt_name(out_dir, number), known, facts)


def _write_tokens(
    plan: Plan, layout: Layout, shard: ShardPlan, path: Path
) -> tuple[str, np.ndarray, bool]:
    """Write the ids; return their hash, where documents end, and whether the end cuts one."""
    state, ends, written = xxhash.xxh3_128(), [np.empty(0, np.int64)], 0
    with new_file(path) as file:
        for part in parts_between(layout.part_starts[shard.axis], shard.start, shard.stop):
            begins = int(layout.part_starts[shard.axis][part]) - shard.start
            rows, fates, tokens = _part(plan, layout, part)
            kept = fates == shard.axis
            for run in _runs_of_tokens(rows, kept, begins, shard.stop - shard.start):
                ids = np.ascontiguousarray(tokens[run])
                file.write(ids.data)
                state.update(ids.data)
                written += len(ids)
            stops = begins + np.cumsum(rows["length"][kept], dtype=np.int64)
            stops = stops[(rows["flags"][kept] & OPEN) == 0]
            ends.append(stops[(stops > 0) & (stops <= shard.stop - shard.start)])
    assert written == shard.stop - shard.start, (shard, written)
    found = np.concatenate(ends)
    cut = shard.ends_split and (not len(found) or bool(found[-1] != written))
    if cut:
        found = np.append(found, written)  # the held-out part begins inside this document
    return state.hexdigest(), found, cut


def _part(plan: Plan, layout: Layout, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    described = load_joined(str(plan.workspace.out_dir)).parts[part]
    fates = fates_of(plan, part, layout.decision)
    rows = read_rows(plan.workspace, described)
    return rows, fates, read_tokens(plan.workspace, described, plan.dtype)


def _runs_of_tokens(
    rows: np.ndarray, kept: np.ndarray, begins: int, length: int
) -> Iterator[slice]:
    """Stretches of a part's tokens that belong into [0, length) of the shard, in order.

    `begins` is where the first kept token of the part stands, relative to the shard.
    """
    stops = np.cumsum(rows["length"], dtype=np.int64)
    starts = stops - rows["length"]
    edges = np.flatnonzero(np.diff(np.concatenate(([0], kept.view(np.int8), [0]))))
    place = begins
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        start, stop = int(starts[first]), int(stops[last - 1])
        from_start = max(0, -place)
        to_stop = min(stop - start, length - place)
        if to_stop > from_start:
            yield slice(start + from_start, start + to_stop)
        place += stop - start
