"""Find what was seen before: hashes of lines or documents are sorted into runs, then searched.

A run is what one unit, one part or one shard of an existing dataset leaves; the search goes over
all runs, a partition of the hashes at a time. So memory is bounded by the size of a run and of a
partition.

No index of hashes is kept with a dataset (it would be a quarter of its size): when documents are
added, those of its shards are computed again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.errors import BadInputError, MismatchError, PrepareError
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.workspace.work_folder import Receipt, Workspace, leaves_receipt
from tokenmill.shards.manifest import Manifest, ShardEntry
from tokenmill.text.cleaning.dedup import HASH, find_duplicates, hash_all, make_run, slice_of
from tokenmill.text.cleaning.line_work import find_lines, lines_that_count
from tokenmill.tokens.tokenizer import Tokenizer

HASHES_PER_RUN = 2 << 20  # 40 MB on disk: a larger unit leaves several runs
HASHES_PER_PARTITION = 1 << 20  # some 70 MB while a partition is searched
ENTRY = np.dtype([("hash", HASH), ("ordinal", "<u4")])
TOKENS_AT_ONCE = 1 << 20
Item = TypeVar("Item")
Hashed = tuple[np.ndarray, np.ndarray]
"""Hashes, and the ordinal of each."""
PROBE = "A line of text,\twith  blanks \n\n and \u00e9\u4e2d.\n".encode()


def write_runs(
    workspace: Workspace, stage: str, number: int, hashed: Iterable[Hashed]
) -> list[int]:
    """Write the hashes of one unit as sorted runs, then what was repeated; how long each run is.

    `hashed` gives hashes with their ordinals in the unit, in ascending order, a chunk at a time.
    """
    lengths, repeated = list[int](), [np.empty(0, "<u4")]
    with new_file(workspace.path(stage, f"{number}.runs")) as file:
        found = (chunk for chunk in hashed if len(chunk[0]))
        for batch in _in_batches(found, lambda chunk: len(chunk[0]), HASHES_PER_RUN):
            entries, repeated_here = _make_entries(batch)
            file.write(entries.data)
            lengths.append(len(entries))
            repeated.append(repeated_here)
            del entries  # 40 MB that the next run can use
        file.write(np.concatenate(repeated).astype("<u4").data)
    return lengths


def _make_entries(batch: list[Hashed]) -> tuple[np.ndarray, np.ndarray]:
    """A sorted run, and the ordinals of what is repeated in it. The batch is used up."""
    hashes, ordinals = (np.concatenate(arrays) for arrays in zip(*batch, strict=True))
    batch.clear()
    if int(ordinals[-1]) >= 1 << 32:  # they would wrap in the file
        raise PrepareError(
            f"more than {1 << 32:,} lines or documents in one unit",
            hint="a compressed file is one unit: cut it into several files",
        )
    run = make_run(hashes, ordinals)
    entries = np.empty(len(run.hashes), ENTRY)
    entries["hash"], entries["ordinal"] = run.hashes, run.ordinals
    return entries, run.repeated


def _in_batches(
    items: Iterable[Item], size: Callable[[Item], int], enough: int
) -> Iterator[list[Item]]:
    """Many small items at a time, or one that is large: of this size or more in all."""
    batch, total = list[Item](), 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= enough:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


@dataclass(frozen=True)
class Searched:
    """A stage whose runs were searched for repetitions: how many runs, in how many partitions."""

    stage: str
    runs: int
    partitions: int

    @classmethod
    def plan(cls, stage: str, receipts: list[Receipt]) -> "Searched":
        """So many partitions that each stays within its share of memory."""
        total = sum(sum(receipt["runs"]) for receipt in receipts)
        return cls(stage, len(receipts), max(1, -(-total // HASHES_PER_PARTITION)))

    def name(self, partition: int) -> str:
        return f"search-{partition}-of-{self.partitions}"

    def search(self, workspace: Workspace, partition: int) -> Receipt:
        slices = [
            (number, np.ascontiguousarray(part["hash"]), np.ascontiguousarray(part["ordinal"]))
            for number, entries in _runs(workspace, self.stage, self.runs)
            if len(part := entries[slice_of(entries["hash"], partition, self.partitions)])
        ]
        found = find_duplicates(slices)
        starts = np.searchsorted(found.units, np.arange(self.runs + 1)).astype("<u8")
        file_name = f"{self.name(partition)}.duplicates"
        with new_file(workspace.path(self.stage, file_name)) as file:
            file.write(starts.tobytes())
            file.write(found.ordinals.astype("<u4").tobytes())
        facts = {"duplicates": len(found.ordinals)}
        return workspace.leave_receipt(self.stage, self.name(partition), [file_name], facts)

    def repeated(self, workspace: Workspace, number: int) -> np.ndarray:
        """All ordinals of one run that repeat something earlier, in the run or before it."""
        receipt = workspace.receipt_of_done(self.stage, number)
        path = workspace.path(self.stage, f"{number}.runs")
        found = [np.fromfile(path, "<u4", offset=ENTRY.itemsize * sum(receipt["runs"]))]
        for partition in range(self.partitions):
            path = workspace.path(self.stage, f"{self.name(partition)}.duplicates")
            start, stop = np.fromfile(path, "<u8", count=2, offset=8 * number).tolist()
            offset = 8 * (self.runs + 1) + 4 * start
            found.append(np.fromfile(path, "<u4", count=stop - start, offset=offset))
        return np.sort(np.concatenate(found))


@leaves_receipt(lambda _, partition, searched: (searched.stage, searched.name(partition)))
def search_lines(out_dir: str, partition: int, searched: Searched) -> Receipt:
    """Task: find the lines that are repeated in one partition of the runs."""
    return searched.search(Workspace(out_dir), partition)


@leaves_receipt(lambda _, partition, searched: (searched.stage, searched.name(partition)))
def search_documents(out_dir: str, partition: int, searched: Searched) -> Receipt:
    """Task: find the documents that are repeated in one partition of the runs."""
    return searched.search(Workspace(out_dir), partition)


def _runs(workspace: Workspace, stage: str, runs: int) -> Iterator[tuple[int, np.ndarray]]:
    for number in range(runs):
        receipt = workspace.receipt_of_done(stage, number)
        if total := sum(receipt["runs"]):
            path = workspace.path(stage, f"{number}.runs")
            entries = np.memmap(path, ENTRY, mode="r", shape=(total,))
            for stop, length in zip(np.cumsum(receipt["runs"]), receipt["runs"], strict=True):
                yield number, entries[stop - length : stop]


def shards_of(manifest: Manifest | None) -> list[tuple[tuple[ShardEntry, ...], int]]:
    """Every shard that is there, as (shards of its split, place in them): a run before ours."""
    splits = manifest.splits.values() if manifest is not None else ()
    return [(split.shards, at) for split in splits for at in range(len(split.shards))]


def check_gives_text_back(tokenizer: Tokenizer) -> None:
    """Refuse to compare lines through a tokenizer that does not decode to the text it was given."""
    try:
        ids, _ = tokenizer.encode_batch([PROBE])
    except BadInputError:
        return  # it refuses what it cannot give back
    if tokenizer.decode(ids) != PROBE:
        raise MismatchError(
            f"the tokenizer {tokenizer.name} does not give back the text it encoded, so lines "
            "that are in the dataset already cannot be known",
            hint="add with --dedup documents or --no_dedup, or prepare all inputs together",
        )


@leaves_receipt(lambda _, number: ("lines", str(number)))
def hash_existing_lines(out_dir: str, number: int) -> Receipt:
    """Task: hash the lines of the documents that end in one shard of the dataset."""
    plan = load_plan(out_dir)
    check_gives_text_back(plan.tokenizer)

    def hash_batch(batch: list[np.ndarray]) -> np.ndarray:
        lines = find_lines([plan.tokenizer.decode(ids) for ids in batch])
        counts = lines_that_count(lines, plan.settings.dedup_min_chars, plan.settings.long_line)
        return hash_all(compress(lines.all(), counts))

    return _hash_shard(plan, "lines", number, hash_batch)


@leaves_receipt(lambda _, number: ("documents", str(number)))
def hash_existing_documents(out_dir: str, number: int) -> Receipt:
    """Task: hash the documents that end in one shard of the dataset."""

    def hash_batch(batch: list[np.ndarray]) -> np.ndarray:
        return hash_all(ids.astype("<u4").tobytes() for ids in batch)

    return _hash_shard(load_plan(out_dir), "documents", number, hash_batch)


def _hash_shard(
    plan: Plan, stage: str, number: int, hash_batch: Callable[[list[np.ndarray]], np.ndarray]
) -> Receipt:
    manifest = Manifest.load(plan.workspace.out_dir)
    documents = _documents(plan, *shards_of(manifest)[number])
    hashes = map(hash_batch, _in_batches(documents, len, TOKENS_AT_ONCE))
    hashed = ((found, np.zeros(len(found), np.uint32)) for found in hashes)
    facts = {"runs": write_runs(plan.workspace, stage, number, hashed)}
    return plan.workspace.leave_receipt(stage, str(number), [f"{number}.runs"], facts)


def _documents(plan: Plan, shards: tuple[ShardEntry, ...], at: int) -> Iterator[np.ndarray]:
    """The ids of every document that ends in a shard, whatever shards it began in.

    They come without end-of-text, which a document lacks that the held-out end cut in two, and
    without begin token, which the second half of such a document lacks.
    """
    tokens, ends = _tokens_and_ends(plan, shards[at])
    if not len(ends):
        return
    start, before = 0, list[np.ndarray]()
    for earlier in reversed(shards[:at]):
        begun, last = _tokens_and_ends(plan, earlier)
        before.insert(0, begun[last[-1] if len(last) else 0 :])
        if len(last):
            break
    begin_token, end_of_text = plan.begin_token_id, plan.tokenizer.end_of_text_id
    for stop in ends.tolist():
        ids = np.concatenate([*before, tokens[start:stop]]) if before else tokens[start:stop]
        ids = ids[1:] if ids[0] == begin_token else ids
        yield ids[:-1] if len(ids) and ids[-1] == end_of_text else ids
        start, before = stop, []


def _tokens_and_ends(plan: Plan, shard: ShardEntry) -> tuple[np.ndarray, np.ndarray]:
    folder = plan.workspace.out_dir
    tokens = np.memmap(folder / shard.file, plan.dtype, mode="r", shape=(shard.num_tokens,))
    return tokens, np.fromfile(folder / shard.ends.file, "<u8").astype(np.int64)
