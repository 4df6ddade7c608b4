"""Count the words of all documents that are kept, and choose those to learn merges from.

words: the documents of a group of parts are counted in memory, and written whenever many words are
known. add-words: what the groups wrote is added up, a partition of the hashes at a time. The sums
do not depend on what was counted where, so any number of workers gives the same.

Where memory is limited, words that occur fewer than `least_count` times are left out: the smallest
number for which the rest fits. So it depends on the text and the memory allowed, on nothing else.

    N.words   the number of words (8 bytes); hashes (16 bytes per word), counts (8), lengths (4);
              then the words; sorted by hash, so that many files are added up a range at a time

Equal words have equal hashes of 128 bits; on different words with one hash see
text/cleaning/dedup.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tokenmill.base.atomic import new_file
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.memory_budget import PER_DRIVER
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stage_table import Preparation, Stage
from tokenmill.preparation.stages.decide import DROPPED, Decision, decisions_on
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.cleaning.dedup import HASH, hash_all, sort_hashes
from tokenmill.tokens.words import END, WordCounter

MOST_PARTS_PER_GROUP = 8  # of 16 MB of text
GROUPS = 16  # at least, where there are enough parts: for as many workers
DOCUMENTS_AT_ONCE = 4 << 20  # bytes
WORDS_PER_PARTITION = 1 << 20  # some 100 MB while they are added up
WORDS_AT_ONCE = 1 << 16  # that are copied
BYTES_PER_SYMBOL = 32  # of memory while merges are learned; measured: 25
HIGHEST_LIMIT = 1 << 16  # words that occur as often are never left out
FACTS = ("documents", "text_bytes")
Array = npt.NDArray[Any]


class CountedWords(NamedTuple):
    """Words and the number of times each occurs; `text` holds them one after another."""

    hashes: Array  # (n,) HASH
    counts: Array  # (n,) uint64
    lengths: Array  # (n,) uint32, in bytes
    text: Array  # (sum of lengths,) uint8

    @classmethod
    def of(cls, words: Mapping[bytes, int]) -> Self:
        """Sort counted words by their hashes."""
        hashes, order = sort_hashes(hash_all(words))
        keys = list(words)
        counts = np.fromiter(words.values(), np.uint64, len(words))
        lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
        text = np.frombuffer(b"".join(keys[at] for at in order.tolist()), np.uint8)
        return cls(hashes, counts[order], lengths[order], text)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map a file."""
        data = np.memmap(path, np.uint8, mode="r")
        num_words = int(data[:8].view("<u8")[0])
        stops = 8 + np.cumsum([0, 16 * num_words, 8 * num_words, 4 * num_words])
        _, hashes, counts, lengths, text = np.split(data, stops)
        return cls(hashes.view(HASH), counts.view("<u8"), lengths.view("<u4"), text)

    def write(self, path: Path) -> None:
        with new_file(path) as file:
            file.write(len(self.counts).to_bytes(8, "little"))
            file.write(np.ascontiguousarray(self.hashes).data)
            file.write(self.counts.astype("<u8").data)
            file.write(self.lengths.astype("<u4").data)
            file.write(np.ascontiguousarray(self.text).data)

    def between(self, low: int, high: int) -> Self:
        """Return the words whose hashes begin with values from `low` up to `high`."""
        begins = np.ascontiguousarray(self.hashes["high"])
        first = int(np.searchsorted(begins, np.uint64(low)))
        last = len(begins) if high >> 64 else int(np.searchsorted(begins, np.uint64(high)))
        start = int(self.lengths[:first].sum(dtype=np.int64))
        stop = start + int(self.lengths[first:last].sum(dtype=np.int64))
        hashes, counts, lengths = (array[first:last] for array in self[:3])
        return type(self)(hashes, counts, lengths, self.text[start:stop])

    def take(self, numbers: Array) -> Self:
        """Return the words with these numbers, in this order."""
        lengths = self.lengths[numbers].astype(np.int64)
        starts = (np.cumsum(self.lengths, dtype=np.int64) - self.lengths)[numbers]
        texts = [np.empty(0, np.uint8)]
        for first in range(0, len(numbers), WORDS_AT_ONCE):
            some = lengths[first : first + WORDS_AT_ONCE]
            stops = np.cumsum(some)
            # For every byte of the result, its position in the text.
            source = np.repeat(starts[first : first + WORDS_AT_ONCE] - (stops - some), some)
            source += np.arange(len(source))
            texts.append(self.text[source])
        hashes, counts, short = (array[numbers] for array in self[:3])
        return type(self)(hashes, counts, short, np.concatenate(texts))


def partition_bounds(partition: int, num_partitions: int) -> tuple[int, int]:
    """Return the first value of `high` that belongs to a partition, and the first beyond it."""
    low, high = ((n << 64) // num_partitions for n in (partition, partition + 1))
    return low, high


def add_up(runs: Iterable[CountedWords]) -> CountedWords:
    """Return every word of these runs once, with the sum of its counts."""
    joined = CountedWords(*map(np.concatenate, zip(*runs, strict=True)))
    hashes, order = sort_hashes(joined.hashes)
    first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
    words = joined.take(order[first])
    counts = joined.counts[order]
    return words._replace(counts=np.add.reduceat(counts, first) if len(first) else counts)


WORDS = Stage("words", "count_words.count_words", "group of parts", "words")
ADD_WORDS = Stage("add-words", "count_words.add_words", "million words", "all-words")


def count_words(out_dir: str, group: int, size: int, decision: Decision) -> Receipt:
    """Task: leave the words of a group of `size` parts, in one file or several."""
    plan = load_plan(out_dir)
    num_parts = len(load_parts(out_dir))
    files: list[str] = []
    facts = dict.fromkeys(("words", *FACTS), 0)

    def write_file(words: dict[bytes, int]) -> None:
        files.append(f"{group}.{len(files)}.words")
        facts["words"] += len(words)
        CountedWords.of(words).write(plan.workspace.path("words", files[-1]))

    counter = WordCounter(str(plan.settings.token_pattern), write_file)
    for part in range(group * size, min((group + 1) * size, num_parts)):
        for text in _kept_text(plan, part, decision):
            counter.add(text.data)
            num_ends = int(np.count_nonzero(text == END))
            facts["documents"] += num_ends
            facts["text_bytes"] += len(text) - num_ends
    counter.finish()
    return plan.workspace.leave_receipt("words", str(group), files, facts)


def add_words(out_dir: str, partition: int, num_partitions: int, files: list[str]) -> Receipt:
    """Task: leave the words of one partition, each once."""
    workspace = load_plan(out_dir).workspace
    bounds = partition_bounds(partition, num_partitions)
    runs = (CountedWords.read(workspace.path("words", file)) for file in files)
    name = f"{partition}.words"
    add_up(run.between(*bounds) for run in runs).write(workspace.path("all-words", name))
    return workspace.leave_receipt("all-words", str(partition), [name], {})


def count_all_words(this: Preparation) -> tuple[list[Path], dict[str, int]]:
    """Run both stages; return files of all words, each word once, and counts of their text."""
    num_parts = len(load_parts(this.out_dir))
    decision = Decision(by_hash=False, documents=this.documents)
    size = max(1, min(MOST_PARTS_PER_GROUP, num_parts // GROUPS))
    groups = this.run_tasks(WORDS, -(-num_parts // size), size, decision)
    files = [file for group in groups for file in group["files"]]
    num_partitions = -(-sum(group["words"] for group in groups) // WORDS_PER_PARTITION)
    sums = this.run_tasks(ADD_WORDS, num_partitions, num_partitions, files)
    folder = this.plan.workspace.path("all-words", "")
    paths = [folder / file for done in sums for file in done["files"]]
    return paths, {fact: sum(group[fact] for group in groups) for fact in FACTS}


def _kept_text(plan: Plan, part: int, decision: Decision) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the documents of a part that are kept, some at a time, as bytes with END after each."""
    described = load_parts(plan.workspace.out_dir)[part]
    is_kept = decisions_on(plan, part, decision) != DROPPED
    if len(described.files) > 1:  # one long document, in files that end where it may be cut
        for ids in described.token_arrays(plan) if is_kept[0] else ():
            yield _as_text(plan, ids)
        return
    (tokens,) = described.token_arrays(plan)
    lengths = described.rows(plan)["length"].astype(np.int64)  # (documents,)
    ends = np.cumsum(lengths)
    first = 0
    start = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, start + DOCUMENTS_AT_ONCE, "right")))
        stop = int(ends[last - 1])
        ids = tokens[start:stop][np.repeat(is_kept[first:last], lengths[first:last])]
        yield _as_text(plan, ids)
        first = last
        start = stop


def _as_text(plan: Plan, ids: np.ndarray) -> np.ndarray[Any, Any]:
    """Return ids of the tokenizer `bytes` as bytes, with END for end-of-text."""
    text = ids.astype(np.uint8)
    text[ids == plan.tokenizer.end_of_text_id] = END
    return text


def choose_words(files: Sequence[Path], max_ram: int | None) -> tuple[CountedWords, int, int]:
    """Return the words that fit into the memory, the least count, and how many are left out."""
    least_count = 1 if max_ram is None else _least_count(files, max_ram)
    chosen = [CountedWords.of({})]
    num_words = 0
    for path in files:
        words = CountedWords.read(path)
        num_words += len(words.counts)
        chosen.append(words.take(np.flatnonzero(words.counts >= least_count)))
    kept = CountedWords(*map(np.concatenate, zip(*chosen, strict=True)))
    return kept, least_count, num_words - len(kept.counts)


def _least_count(files: Sequence[Path], max_ram: int) -> int:
    # symbols[n]: symbols of all words that occur n times: their bytes, and one per word
    symbols = np.zeros(HIGHEST_LIMIT + 1, np.int64)
    for path in files:
        words = CountedWords.read(path)
        counts = np.minimum(words.counts, HIGHEST_LIMIT).astype(np.int64)
        symbols += np.bincount(counts, words.lengths + 1.0, len(symbols)).astype(np.int64)
    room = (max_ram - PER_DRIVER) // BYTES_PER_SYMBOL
    at_least = np.cumsum(symbols[::-1])[::-1]  # of words that occur n times or more
    if at_least[-1] > room:
        raise PrepareError(
            f"the words that occur {HIGHEST_LIMIT:,} times or more do not fit into max_ram",
            hint="allow more memory: run=Run(max_ram=...)",
        )
    return max(1, int(np.argmax(at_least <= room)))
