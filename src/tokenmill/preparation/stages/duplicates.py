"""Find what was seen before: hashes of lines or documents are sorted into runs, then searched.

A run is what one unit, one part or one shard of an existing dataset leaves; the search goes over
all runs, a partition of the hashes at a time. So memory is bounded by the size of a run and of a
partition.

No index of hashes is kept with a dataset (it would be a quarter of its size): when documents are
added, those of its shards are computed again.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Self

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.errors import BadInputError, MismatchError, PrepareError
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.workspace.work_folder import Workspace, leaves_receipt
from tokenmill.shards.manifest import Manifest, ShardEntry
from tokenmill.text.cleaning.dedup import HASH, find_duplicates, hash_all, make_run, slice_of
from tokenmill.text.cleaning.line_work import find_lines, lines_that_count
from tokenmill.tokens.tokenizer import Tokenizer

HASHES_PER_RUN = 2 << 20  # 40 MB on disk: a larger unit leaves several runs
HASHES_PER_PARTITION = 1 << 20  # some 70 MB while a partition is searched
ENTRY = np.dtype([("hash", HASH), ("ordinal", "<u4")])
TOKENS_AT_ONCE = 1 << 20
PROBE = "A line of text,\twith  blanks \n\n and \u00e9\u4e2d.\n".encode()


class RunWriter:
    """Collects the hashes of one unit and writes them as sorted runs, then what was repeated."""

    def __init__(self, workspace: Workspace, stage: str, name: str) -> None:
        self.workspace, self.stage, self.name = workspace, stage, name
        self.runs: list[int] = []
        self._hashes: list[np.ndarray] = []
        self._ordinals: list[np.ndarray] = []
        self._repeated: list[np.ndarray] = []
        self._collected = 0
        self._open = ExitStack()
        self._file = self._open.enter_context(new_file(workspace.path(stage, f"{name}.runs")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, hashes: np.ndarray, ordinals: np.ndarray) -> None:
        """Take the hashes of one chunk with their ordinals in the unit, in ascending order."""
        if len(ordinals) and int(ordinals[-1]) >= 1 << 32:  # they would wrap in the file
            raise PrepareError(
                f"more than {1 << 32:,} lines or documents in one unit",
                hint="a compressed file is one unit: cut it into several files",
            )
        self._hashes.append(hashes)
        self._ordinals.append(ordinals)
        self._collected += len(hashes)
        if self._collected >= HASHES_PER_RUN:
            self._write_run()

    def finish(self, **facts: Any) -> dict[str, Any]:
        """Write what is left, and the receipt."""
        if self._collected:
            self._write_run()
        repeated = np.concatenate([np.empty(0, "<u4"), *self._repeated]).astype("<u4")
        self._file.write(repeated.data)
        self._open.close()
        return self.workspace.leave_receipt(
            self.stage, self.name, [f"{self.name}.runs"], {"runs": self.runs, **facts}
        )

    def _write_run(self) -> None:
        run = make_run(np.concatenate(self._hashes), np.concatenate(self._ordinals))
        entries = np.empty(len(run.hashes), ENTRY)
        entries["hash"], entries["ordinal"] = run.hashes, run.ordinals
        self._file.write(entries.data)
        self.runs.append(len(entries))
        self._repeated.append(run.repeated)
        self._hashes, self._ordinals, self._collected = [], [], 0


@dataclass(frozen=True)
class Searched:
    """A stage whose runs were searched for repetitions: how many runs, in how many partitions."""

    stage: str
    runs: int
    partitions: int

    @classmethod
    def plan(cls, stage: str, receipts: list[dict[str, Any]]) -> "Searched":
        """So many partitions that each stays within its share of memory."""
        total = sum(sum(receipt["runs"]) for receipt in receipts)
        return cls(stage, len(receipts), max(1, -(-total // HASHES_PER_PARTITION)))

    def partition_tasks(self) -> list[tuple[int, int, int]]:
        """The arguments of the tasks that search."""
        return [(at, self.partitions, self.runs) for at in range(self.partitions)]

    def repeated(self, workspace: Workspace, number: int) -> np.ndarray:
        """All ordinals of one run that repeat something earlier, in the run or before it."""
        receipt = workspace.receipt(self.stage, str(number))
        assert receipt is not None, f"{self.stage} {number} has no receipt"
        path = workspace.path(self.stage, f"{number}.runs")
        found = [np.fromfile(path, "<u4", offset=ENTRY.itemsize * sum(receipt["runs"]))]
        for partition in range(self.partitions):
            name = f"{_search_name(partition, self.partitions)}.duplicates"
            path = workspace.path(self.stage, name)
            start, stop = np.fromfile(path, "<u8", count=2, offset=8 * number).tolist()
            offset = 8 * (self.runs + 1) + 4 * start
            found.append(np.fromfile(path, "<u4", count=stop - start, offset=offset))
        return np.sort(np.concatenate(found))


def _search_name(partition: int, of: int) -> str:
    return f"search-{partition}-of-{of}"


@leaves_receipt(lambda _, partition, of, runs: ("lines", _search_name(partition, of)))
def search_lines(out_dir: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    """Task: find the lines that are repeated in one partition of the runs."""
    return _search(Workspace(out_dir), "lines", partition, of, runs)


@leaves_receipt(lambda _, partition, of, runs: ("documents", _search_name(partition, of)))
def search_documents(out_dir: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    """Task: find the documents that are repeated in one partition of the runs."""
    return _search(Workspace(out_dir), "documents", partition, of, runs)


def _search(workspace: Workspace, stage: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    done = _search_name(partition, of)
    slices = [
        (number, np.ascontiguousarray(part["hash"]), np.ascontiguousarray(part["ordinal"]))
        for number, entries in _runs(workspace, stage, runs)
        if len(part := entries[slice_of(entries["hash"], partition, of)])
    ]
    found = find_duplicates(slices)
    starts = np.searchsorted(found.units, np.arange(runs + 1)).astype("<u8")
    with new_file(workspace.path(stage, f"{done}.duplicates")) as file:
        file.write(starts.tobytes())
        file.write(found.ordinals.astype("<u4").tobytes())
    facts = {"duplicates": len(found.ordinals)}
    return workspace.leave_receipt(stage, done, [f"{done}.duplicates"], facts)


def _runs(workspace: Workspace, stage: str, runs: int) -> Iterator[tuple[int, np.ndarray]]:
    for number in range(runs):
        receipt = workspace.receipt(stage, str(number))
        assert receipt is not None, f"{stage} {number} has no receipt"
        if total := sum(receipt["runs"]):
            path = workspace.path(stage, f"{number}.runs")
            entries = np.memmap(path, ENTRY, mode="r", shape=(total,))
            for stop, length in zip(np.cumsum(receipt["runs"]), receipt["runs"], strict=True):
                yield number, entries[stop - length : stop]


def shards_of(manifest: Manifest | None) -> list[tuple[str, int]]:
    """(split, place in it) of every shard that is there; each is a run before those of ours."""
    if manifest is None:
        return []
    return [
        (name, at) for name, split in manifest.splits.items() for at in range(len(split.shards))
    ]


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


@leaves_receipt(lambda _, split, shard, number: ("lines", str(number)))
def hash_existing_lines(out_dir: str, split: str, shard: int, number: int) -> dict[str, Any]:
    """Task: hash the lines of the documents that end in one shard of the dataset."""
    plan = load_plan(out_dir)
    check_gives_text_back(plan.tokenizer)
    return _hash_shard(plan, "lines", split, shard, number)


@leaves_receipt(lambda _, split, shard, number: ("documents", str(number)))
def hash_existing_documents(out_dir: str, split: str, shard: int, number: int) -> dict[str, Any]:
    """Task: hash the documents that end in one shard of the dataset."""
    return _hash_shard(load_plan(out_dir), "documents", split, shard, number)


def _hash_shard(plan: Plan, stage: str, split: str, shard: int, number: int) -> dict[str, Any]:
    shards = Manifest.load(plan.workspace.out_dir).splits[split].shards
    hash_batch = _hash_documents if stage == "documents" else _hash_lines
    with RunWriter(plan.workspace, stage, str(number)) as writer:
        documents = _documents(plan.workspace.out_dir, shards, shard, plan.dtype)
        for batch in _batches(documents):
            hashes = hash_batch(plan, batch)
            writer.add(hashes, np.zeros(len(hashes), np.uint32))
        return writer.finish()


def _batches(documents: Iterator[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Many documents at a time, or one that is long."""
    batch: list[np.ndarray] = []
    tokens = 0
    for ids in documents:
        batch.append(ids)
        tokens += len(ids)
        if tokens >= TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def _hash_documents(plan: Plan, batch: list[np.ndarray]) -> np.ndarray:
    return hash_all(_text_ids(plan, ids).astype("<u4").tobytes() for ids in batch)


def _hash_lines(plan: Plan, batch: list[np.ndarray]) -> np.ndarray:
    """The lines of all these documents."""
    lines = find_lines([plan.tokenizer.decode(_text_ids(plan, ids)) for ids in batch])
    counts = lines_that_count(lines, plan.settings.dedup_min_chars, plan.settings.long_line)
    return hash_all(compress(lines.all(), counts))


def _text_ids(plan: Plan, ids: np.ndarray) -> np.ndarray:
    """Without end-of-text, which a document lacks that the held-out end cut in two."""
    return ids[:-1] if ids[-1] == plan.tokenizer.end_of_text_id else ids


def _documents(
    folder: Path, shards: tuple[ShardEntry, ...], at: int, dtype: np.dtype[Any]
) -> Iterator[np.ndarray]:
    """The ids of every document that ends in a shard, whatever shards it began in."""
    tokens = _tokens(folder, shards[at], dtype)
    ends = np.fromfile(folder / shards[at].ends.file, "<u8").astype(np.int64)
    if not len(ends):
        return
    before: list[np.ndarray] = []
    for earlier in reversed(shards[:at]):
        begun = _tokens(folder, earlier, dtype)
        last = np.fromfile(folder / earlier.ends.file, "<u8")[-1:]
        before.insert(0, begun[int(last[0]) if len(last) else 0 :])
        if len(last):
            break
    yield np.concatenate([*before, tokens[: ends[0]]])
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        yield tokens[start:stop]


def _tokens(folder: Path, shard: ShardEntry, dtype: np.dtype[Any]) -> np.ndarray:
    return np.memmap(folder / shard.file, dtype, mode="r", shape=(shard.num_tokens,))
