"""Find what was seen before: hashes of lines or documents are sorted into runs, then searched.

A run is what one unit, one part or one shard of an existing dataset leaves; the search goes over
all runs, a partition of the hashes at a time. So memory is bounded by the size of a run and of a
partition. A search of many runs has three steps, so that it takes time in proportion to its input:

    merge    the runs of a group become one run; what the group repeats is set aside
    search   every partition of the merged runs
    answer   what of a group is repeated, by the group itself and in all partitions, in one file

No index of hashes is kept with a dataset (it would be a quarter of its size): when documents are
added, those of its shards are computed again.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TypeVar

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.errors import BadInputError, MismatchError, PrepareError
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.hash_runs import (
    ORDINAL_BITS,
    WORD,
    PlaceFile,
    RunFile,
    RunWriter,
    entries_between,
    write_places,
)
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.workspace.receipt_log import Receipt, StageReceipts
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.cleaning.dedup import (
    Run,
    find_duplicates,
    find_on_other_side,
    hash_all,
    make_run,
    partition_bounds,
    sort_all,
)
from tokenmill.text.cleaning.line_work import find_lines, hash_selected, lines_that_count
from tokenmill.tokens.tokenizer import Tokenizer

HASHES_PER_RUN = 2 << 20  # 48 MB on disk: a larger unit leaves several runs
MOST_FILES = 512  # searched as they are; a slice of each for each partition is then not too small
HASHES_PER_PARTITION = 1 << 20  # some 80 MB while a partition is searched
UNITS_SORTED_AT_ONCE = 16
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
    repeated = [np.empty(0, WORD)]
    with new_file(workspace.path(stage, f"{number}.runs")) as file:
        writer = RunWriter(file)
        found = (chunk for chunk in hashed if len(chunk[0]))
        for batch in _in_batches(found, lambda chunk: len(chunk[0]), HASHES_PER_RUN):
            hashes, ordinals = (np.concatenate(arrays) for arrays in zip(*batch, strict=True))
            batch.clear()
            if int(ordinals[-1]) >= 1 << ORDINAL_BITS:  # they would reach into another unit
                raise PrepareError(
                    f"more than {1 << ORDINAL_BITS:,} lines or documents in one unit",
                    hint="a compressed file is one unit: cut it into several files",
                )
            run = make_run(hashes, ordinals.astype(WORD) + (number << ORDINAL_BITS))
            del hashes, ordinals  # as much as the next run needs
            writer.add([run], len(run.hashes))
            repeated.append(run.repeated)
        writer.finish(np.concatenate(repeated))
    return writer.lengths


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
    """A stage whose runs were searched for repetitions, in how many partitions."""

    stage: str
    num_units: int
    """Units, or whatever left a file of runs."""
    partitions: int
    group: int
    """Units whose runs are merged before the search; 1: none are."""
    held_out: list[tuple[int, int]] | None = None
    """Ranges of units that are held out. Then a hash counts as repeated only where it was first
    seen on the other side: held out, or not."""

    @classmethod
    def plan(
        cls,
        stage: str,
        receipts: Sequence[StageReceipts],
        held_out: list[tuple[int, int]] | None = None,
    ) -> "Searched":
        """So many partitions that each stays within its share of memory; `receipts` are those of
        the tasks that left runs, stage by stage."""
        total = sum(sum(receipt["runs"]) for found in receipts for receipt in found)
        num_units = sum(map(len, receipts))
        group = 1 if num_units <= MOST_FILES else math.isqrt(num_units - 1) + 1
        partitions = max(1, -(-total // HASHES_PER_PARTITION))
        return cls(stage, num_units, partitions, group, held_out)

    @property
    def num_groups(self) -> int:
        return 0 if self.group == 1 else -(-self.num_units // self.group)

    def merge(self, workspace: Workspace, number: int) -> Receipt:
        """Make one run of those of a group, and a file of what the group itself repeats."""
        paths = [workspace.path(self.stage, f"{unit}.runs") for unit in self._units_of(number)]
        total = 0
        for path in paths:
            with RunFile(path) as file:
                total += file.num_entries
        parts = max(1, -(-total // HASHES_PER_PARTITION))
        merge = make_run if self.held_out is None else sort_all
        files = [f"merged-{number}.runs", f"merged-{number}.repeated"]
        with ExitStack() as stack:
            runs, repeated = (
                stack.enter_context(new_file(workspace.path(self.stage, file))) for file in files
            )

            def merged_parts() -> Iterator[Run]:
                for part in range(parts):
                    merged = merge(*entries_between(paths, *partition_bounds(part, parts)))
                    repeated.write(merged.repeated.data)
                    yield merged

            writer = RunWriter(runs)
            writer.add(merged_parts(), total)
            writer.finish(np.empty(0, WORD))
        return workspace.leave_receipt(self.stage, f"merged-{number}", files, {})

    def search(self, workspace: Workspace, partition: int) -> Receipt:
        """Leave the sorted places of what is repeated in one partition of the runs."""
        names = [f"merged-{number}" for number in range(self.num_groups)]
        names = names or [str(number) for number in range(self.num_units)]
        paths = [workspace.path(self.stage, f"{name}.runs") for name in names]
        bounds = partition_bounds(partition, self.partitions)
        hashes, places = entries_between(paths, *bounds)
        found = (
            find_duplicates(hashes, places)
            if self.held_out is None
            else find_on_other_side(hashes, places, self._are_held_out(places))
        )
        file_name = f"search-{partition}.duplicates"
        with new_file(workspace.path(self.stage, file_name)) as file:
            write_places(file, [found], self._firsts)
        facts = {"duplicates": len(found)}
        return workspace.leave_receipt(self.stage, f"search-{partition}", [file_name], facts)

    def answer(self, workspace: Workspace, number: int) -> Receipt:
        """Leave the sorted places of what is repeated in a group, from all partitions.

        They are put into the files of a few units each on the way, which fit into memory.
        """
        units = self._units_of(number)
        file_name = f"answer-{number}.duplicates"
        with ExitStack() as stack:
            scratch = [
                (
                    np.uint64(first << ORDINAL_BITS),
                    stack.enter_context(TemporaryFile(dir=workspace.path(self.stage, ""))),
                )
                for first in units[::UNITS_SORTED_AT_ONCE]
            ]
            for places in self._found_in_group(workspace, number):
                starts = np.searchsorted(places, [first for first, _ in scratch])
                for part, (_, file) in zip(np.split(places, starts[1:]), scratch, strict=True):
                    file.write(part.data)
            with new_file(workspace.path(self.stage, file_name)) as answer:
                write_places(answer, map(_sorted_places, scratch), _and_after(units))
        return workspace.leave_receipt(self.stage, f"answer-{number}", [file_name], {})

    def repeated(self, workspace: Workspace, number: int) -> np.ndarray:
        """All ordinals of one unit that repeat something earlier, in the unit or before it.

        Where sides are compared, each hash is there once for every run of the unit.
        """
        with RunFile(workspace.path(self.stage, f"{number}.runs")) as runs:
            found = [runs.repeated() if self.held_out is None else np.empty(0, WORD)]
        if self.num_groups:
            group, bound = divmod(number, self.group)
            path = workspace.path(self.stage, f"answer-{group}.duplicates")
            with PlaceFile(path, len(self._units_of(group)) + 1) as answer:
                found.append(answer.between(bound))
        else:
            found += self._found(workspace, number)
        places = np.sort(np.concatenate(found))
        ordinals: np.ndarray = (places & ((1 << ORDINAL_BITS) - 1)).astype(np.uint32)
        return ordinals

    def _are_held_out(self, places: np.ndarray) -> np.ndarray:
        units = places >> np.uint64(ORDINAL_BITS)
        found = np.zeros(len(places), np.bool_)
        for start, stop in self.held_out or ():
            found |= (units >= start) & (units < stop)
        return found

    @property
    def _firsts(self) -> range:
        """The first unit of each group, and one after the last."""
        return range(0, -(-self.num_units // self.group) * self.group + 1, self.group)

    def _units_of(self, group: int) -> range:
        return range(self.num_units)[group * self.group :][: self.group]

    def _found(self, workspace: Workspace, group: int) -> Iterator[np.ndarray]:
        """Sorted places of a group, from each partition."""
        for partition in range(self.partitions):
            path = workspace.path(self.stage, f"search-{partition}.duplicates")
            with PlaceFile(path, len(self._firsts)) as places:
                yield places.between(group)

    def _found_in_group(self, workspace: Workspace, group: int) -> Iterator[np.ndarray]:
        """What partitions found of a group, and what the group itself repeats."""
        yield from self._found(workspace, group)
        with open(workspace.path(self.stage, f"merged-{group}.repeated"), "rb") as file:
            # Not by np.fromfile, which takes a failed read for the end of the file.
            while data := file.read(HASHES_PER_PARTITION * WORD.itemsize):
                yield np.sort(np.frombuffer(data, WORD))


def _and_after(units: range) -> range:
    return range(units.start, units.stop + 1)


def _sorted_places(scratch: tuple[np.uint64, IO[bytes]]) -> np.ndarray:
    file = scratch[1]
    file.seek(0)
    return np.sort(np.frombuffer(file.read(), WORD))


def merge(out_dir: str, group: int, searched: Searched) -> Receipt:
    """Task: merge the runs of a group of units or parts."""
    return searched.merge(load_plan(out_dir).workspace, group)


def search(out_dir: str, partition: int, searched: Searched) -> Receipt:
    """Task: find what is repeated in one partition of the runs."""
    return searched.search(load_plan(out_dir).workspace, partition)


def answer(out_dir: str, group: int, searched: Searched) -> Receipt:
    """Task: collect what is repeated in a group of units or parts."""
    return searched.answer(load_plan(out_dir).workspace, group)


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
            hint='add with dedup="documents" or dedup="none", or prepare all inputs together',
        )


def hash_existing_lines(out_dir: str, number: int) -> Receipt:
    """Task: hash the lines of the documents that end in one shard of the dataset."""
    plan = load_plan(out_dir)
    check_gives_text_back(plan.tokenizer)

    def hash_batch(batch: list[np.ndarray]) -> np.ndarray:
        lines = find_lines([plan.tokenizer.decode(ids) for ids in batch])
        counts = lines_that_count(lines, plan.settings.dedup_min_chars, plan.settings.long_line)
        return hash_selected(lines, counts)

    return _hash_shard(plan, "lines", number, hash_batch)


def hash_documents(out_dir: str, part: int, first: int) -> Receipt:
    """Task: leave the sorted hashes of the documents of a part; part 0 is run `first`."""
    plan = load_plan(out_dir)
    hashes = load_parts(out_dir)[part].rows(plan)["hash"].copy()
    number = first + part
    hashed = [(hashes, np.arange(len(hashes)))]
    facts = {"runs": write_runs(plan.workspace, "documents", number, hashed)}
    return plan.workspace.leave_receipt("documents", str(number), [f"{number}.runs"], facts)


def hash_existing_documents(out_dir: str, number: int) -> Receipt:
    """Task: hash the documents that end in one shard of the dataset."""

    def hash_batch(batch: list[np.ndarray]) -> np.ndarray:
        return hash_all(ids.astype("<u4").tobytes() for ids in batch)

    return _hash_shard(load_plan(out_dir), "documents", number, hash_batch)


def _hash_shard(
    plan: Plan, stage: str, number: int, hash_batch: Callable[[list[np.ndarray]], np.ndarray]
) -> Receipt:
    from tokenmill.preparation.workspace.existing_dataset import old_documents

    hashes = map(hash_batch, _in_batches(old_documents(plan, number), len, TOKENS_AT_ONCE))
    hashed = ((found, np.zeros(len(found), np.uint32)) for found in hashes)
    facts = {"runs": write_runs(plan.workspace, stage, number, hashed)}
    return plan.workspace.leave_receipt(stage, str(number), [f"{number}.runs"], facts)
