"""Find what was seen before, among lines or among documents, in time in proportion to its input.

Every unit, part, or shard of an existing dataset leaves the hashes of its lines or documents, and
the place of each: a number that grows in input order. They are spread over partitions of all
hashes, and a task searches one partition of all units. Hashes that a batch of one unit repeats are
set aside: a line that is everywhere is then in few rows. A large partition is spread once more,
over scratch files: memory holds a million hashes. No index of hashes is kept with a dataset (it
would be a quarter of its size): when documents are added, those of its shards are computed again.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeVar

import numpy as np

from tokenmill.errors import BadInputError, MismatchError, PrepareError
from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import Workspace
from tokenmill.text.cleaning.dedup import HASH, find_on_other_side, find_repeated, hash_all
from tokenmill.text.cleaning.line_work import find_lines, hash_selected, lines_that_count
from tokenmill.tokens.tokenizer import Tokenizer

HASHES_AT_ONCE = 1 << 20  # some 100 MB while they are sorted
ORDINAL_BITS = 32
ROW_WORDS = 3  # of the file of a unit: the two halves of a hash, and its place
TOKENS_AT_ONCE = 1 << 20
WORD = np.dtype("<u8")
Item = TypeVar("Item")
Hashed = tuple[np.ndarray, np.ndarray]
"""Hashes, and the ordinal of each."""
PROBE = "A line of text,\twith  blanks \n\n and \u00e9\u4e2d.\n".encode()


class BucketWriter:
    """Writes rows of 8-byte numbers, batch after batch, each by bucket; `finish` adds a table.

    The table is (batches, buckets + 1): where each bucket of a batch begins, in rows, and where the
    last ends. Then comes the number of batches.
    """

    def __init__(self, file: IO[bytes], num_buckets: int) -> None:
        self._file = file
        self._num_buckets = num_buckets
        self._starts: list[np.ndarray] = []
        self.num_rows = 0

    def add(self, buckets: np.ndarray, rows: np.ndarray) -> None:
        """Write a batch: (n,) the number of a bucket for each row, and (n, width) WORD."""
        self._file.write(rows.take(np.argsort(buckets, kind="stable"), axis=0).data)
        counts = np.bincount(buckets, minlength=self._num_buckets)
        self._starts.append(self.num_rows + np.append(0, np.cumsum(counts)))
        self.num_rows += len(rows)

    def finish(self) -> None:
        write_table(self._file, self._starts)


def write_table(file: IO[bytes], starts: list[np.ndarray]) -> None:
    """Write the end of a file; `starts` are (buckets + 1,) for each batch."""
    for numbers in starts:
        file.write(numbers.astype(WORD).data)
    file.write(np.array([len(starts)], WORD).data)
    file.flush()


def read_bucket(file: IO[bytes], num_buckets: int, width: int, bucket: int) -> np.ndarray:
    """Return the rows of one bucket, (n, width), batch after batch."""
    size = file.seek(-WORD.itemsize, os.SEEK_END)
    num_batches = int(_read(file, 1)[0])
    row_words = (num_buckets + 1) * WORD.itemsize
    rows = [np.empty(0, WORD)]
    for batch in range(num_batches):
        file.seek(size - (num_batches - batch) * row_words + bucket * WORD.itemsize)
        start, stop = _read(file, 2).tolist()
        if start < stop:
            file.seek(start * width * WORD.itemsize)
            rows.append(_read(file, (stop - start) * width))
    return np.concatenate(rows).reshape(-1, width)


def _read(file: IO[bytes], count: int) -> np.ndarray:
    # Not by np.fromfile, which takes a failed read for the end of the file.
    data = file.read(count * WORD.itemsize)
    if len(data) < count * WORD.itemsize:
        raise EOFError(f"{file.name} ends early")
    return np.frombuffer(data, WORD)


@dataclass(frozen=True)
class Search:
    """A search for what is repeated, among the units of one stage."""

    stage: str
    """`lines` or `documents`."""
    num_units: int
    """Units, or whatever left a file of hashes."""
    held_out: list[tuple[int, int]] | None = None
    """Ranges of units that are held out. Then a hash counts as repeated only where it was first
    seen on the other side: held out, or not."""
    num_hashes: int = 0
    """Of all units, when they are known."""
    first: int = 0
    """Units before the first new one: shards of the dataset that is added to."""

    @property
    def partitions(self) -> int:
        """Few, since every unit has a slice of each: 548 for the 300,000 units of 10 TB.

        Up to some GB they are as many as it takes to search each in memory.
        """
        return max(math.isqrt(max(0, self.num_units - 1)) + 1, min(self.num_units, 32))

    def write_hashes(self, workspace: Workspace, number: int, hashed: Iterable[Hashed]) -> int:
        """Write the hashes of one unit, and return how many there are.

        `hashed` gives hashes with their ordinals in the unit, ascending, a chunk at a time.
        """
        with workspace.new(self.stage, f"{number}.hashes") as file:
            writer = BucketWriter(file, self.partitions + 1)
            chunks = (chunk for chunk in hashed if len(chunk[0]))
            for batch in _in_batches(chunks, lambda chunk: len(chunk[0]), HASHES_AT_ONCE):
                hashes, ordinals = (np.concatenate(arrays) for arrays in zip(*batch, strict=True))
                batch.clear()
                if int(ordinals[-1]) >= 1 << ORDINAL_BITS:  # they would reach into another unit
                    raise PrepareError(
                        f"more than {1 << ORDINAL_BITS:,} lines or documents in one unit",
                        hint="a compressed file is one unit: cut it into several files",
                    )
                rows = np.empty((len(hashes), ROW_WORDS), WORD)
                rows[:, :2] = hashes.view(WORD).reshape(-1, 2)
                rows[:, 2] = ordinals.astype(WORD) + (number << ORDINAL_BITS)
                high = rows[:, 0] >> np.uint64(32)
                partitions = (high * self.partitions >> np.uint64(32)).astype(np.uint16)
                partitions[find_repeated(hashes)] = self.partitions
                writer.add(partitions, rows)
            writer.finish()
        return writer.num_rows

    def run(self, workspace: Workspace, partition: int) -> Receipt:
        """Leave the places of what is repeated in one partition."""
        name = f"search-{partition}"
        num_parts = self.num_hashes // self.partitions // HASHES_AT_ONCE + 1
        slices = workspace.each(
            lambda unit: self._read_hashes(workspace, unit, partition), range(self.num_units)
        )
        parts = in_parts(
            slices, workspace.spool, num_parts, ROW_WORDS, lambda rows: rows[:, 1] % num_parts
        )
        places = in_parts(
            map(self._repeated_places, parts),
            workspace.spool,
            num_parts,
            1,
            lambda found: (found[:, 0] >> ORDINAL_BITS) * num_parts // self.num_units,
        )
        counts = np.zeros(self.num_units, np.int64)
        with workspace.new(self.stage, f"{name}.places") as file:
            for found in places:
                file.write(np.sort(found, axis=0).data)
                found_in = (found[:, 0] >> ORDINAL_BITS).astype(np.int64)
                counts += np.bincount(found_in, minlength=self.num_units)
            write_table(file, [np.append(0, np.cumsum(counts))])
        facts = {"duplicates": int(counts.sum())}
        return workspace.leave_receipt(self.stage, name, [f"{name}.places"], facts)

    def repeated(self, workspace: Workspace, unit: int) -> np.ndarray:
        """Return all ordinals of a new unit that repeat something earlier, in it or before it.

        Where sides are compared, each hash is there once for every batch of the unit.
        """
        number = self.first + unit
        places = [np.empty(0, WORD)]
        if self.held_out is None:
            places.append(self._read_hashes(workspace, number, self.partitions)[:, 2])

        def in_partition(partition: int) -> np.ndarray:
            with workspace.open(self.stage, f"search-{partition}.places") as file:
                return read_bucket(file, self.num_units, 1, number)[:, 0]

        places += workspace.each(in_partition, range(self.partitions))
        found = np.sort(np.concatenate(places))
        ordinals: np.ndarray = (found & ((1 << ORDINAL_BITS) - 1)).astype(np.uint32)
        return ordinals

    def _read_hashes(self, workspace: Workspace, number: int, partition: int) -> np.ndarray:
        with workspace.open(self.stage, f"{number}.hashes") as file:
            return read_bucket(file, self.partitions + 1, ROW_WORDS, partition)

    def _repeated_places(self, rows: np.ndarray) -> np.ndarray:
        """Return the places (n, 1) of rows that are repeated; rows come in the order of places."""
        hashes = np.ascontiguousarray(rows[:, :2]).view(HASH).reshape(-1)
        if self.held_out is None:
            return rows[find_repeated(hashes), 2:]
        units = rows[:, 2] >> ORDINAL_BITS
        are_held_out = np.zeros(len(rows), np.bool_)
        for start, stop in self.held_out:
            are_held_out |= (units >= start) & (units < stop)
        return rows[find_on_other_side(hashes, are_held_out), 2:]


def in_parts(
    rows: Iterable[np.ndarray],
    folder: Path,
    num_parts: int,
    width: int,
    part_of: Callable[[np.ndarray], np.ndarray],
) -> Iterator[np.ndarray]:
    """Yield all rows, (n, width), part by part; a scratch file holds what memory should not."""
    if num_parts == 1:
        yield np.concatenate([np.empty((0, width), WORD), *rows])
        return
    with TemporaryFile(dir=folder) as file:
        writer = BucketWriter(file, num_parts)
        for batch in _in_batches(rows, len, HASHES_AT_ONCE):
            joined = np.concatenate(batch)
            writer.add(part_of(joined).astype(np.int64), joined)
        writer.finish()
        for part in range(num_parts):
            yield read_bucket(file, num_parts, width, part)


def _in_batches(
    items: Iterable[Item], size: Callable[[Item], int], enough: int
) -> Iterator[list[Item]]:
    """Yield many small items at a time, or one that is large: of this size or more in all."""
    batch = list[Item]()
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= enough:
            yield batch
            batch = []
            total = 0
    if batch:
        yield batch


def search_partition(out_dir: str, partition: int, search: Search) -> Receipt:
    """Task: find what is repeated in one partition of all lines or documents."""
    return search.run(load_plan(out_dir).workspace, partition)


def check_gives_text_back(tokenizer: Tokenizer) -> None:
    """Refuse to compare lines through a tokenizer that does not decode to the text it was given."""
    try:
        ids, _ = tokenizer.encode_batch([PROBE])
    except BadInputError:
        return  # it refuses what it cannot give back
    if tokenizer.decode(ids) != PROBE:
        raise MismatchError(
            f"the tokenizer {tokenizer.name} does not give back the text it encoded, so lines "
            "that the dataset already holds cannot be found",
            hint='add with dedup="documents" or dedup="none", or prepare all inputs together',
        )


def hash_existing(out_dir: str, number: int, search: Search) -> Receipt:
    """Task: hash the documents that end in one shard of the dataset, or their lines."""
    from tokenmill.preparation.stages.token_inputs import old_documents

    plan = load_plan(out_dir)
    if search.stage == "lines":
        check_gives_text_back(plan.tokenizer)

    def hash_batch(batch: list[np.ndarray]) -> np.ndarray:
        if search.stage == "documents":
            return hash_all(ids.astype("<u4").tobytes() for ids in batch)
        lines = find_lines([plan.tokenizer.decode(ids) for ids in batch])
        counts = lines_that_count(lines, plan.settings.dedup_min_chars, plan.settings.long_line)
        return hash_selected(lines, counts)

    hashes = map(hash_batch, _in_batches(old_documents(plan, number), len, TOKENS_AT_ONCE))
    hashed = ((found, np.zeros(len(found), np.uint32)) for found in hashes)
    return _leave_hashes(plan.workspace, search, number, hashed)


def hash_documents(out_dir: str, part: int, search: Search) -> Receipt:
    """Task: leave the hashes of the documents of a part."""
    plan = load_plan(out_dir)
    hashes = load_parts(out_dir)[part].rows(plan)["hash"].copy()
    hashed = [(hashes, np.arange(len(hashes)))]
    return _leave_hashes(plan.workspace, search, search.first + part, hashed)


def _leave_hashes(
    workspace: Workspace, search: Search, number: int, hashed: Iterable[Hashed]
) -> Receipt:
    facts = {"hashes": search.write_hashes(workspace, number, hashed)}
    return workspace.leave_receipt(search.stage, str(number), [f"{number}.hashes"], facts)
