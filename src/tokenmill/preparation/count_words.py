"""Count the words of all documents that are kept, and choose those to learn merges from.

words: the documents of a group of parts are counted in memory, and written whenever many words are
known. add-words: what the groups wrote is added up, a partition of the words at a time. The sums do
not depend on what was counted where, so any number of workers gives the same. Where memory is
limited, words that occur fewer than `least_count` times are left out: the smallest number for which
the rest fits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from tokenmill.base.atomic import keep, new_file
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.limits import PER_DRIVER
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stage_table import Preparation, Stage
from tokenmill.preparation.stages.decide import DROPPED, decisions_on
from tokenmill.preparation.stages.duplicates import Search
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.work_folder import open_folder
from tokenmill.tokens.words import END, WordCounter

MOST_PARTS_PER_GROUP = 8  # of 16 MB of text
GROUPS = 16  # at least, where there are enough parts: for as many workers
DOCUMENTS_AT_ONCE = 4 << 20  # bytes
TEXT_PER_PARTITION = 256 << 20  # bytes, whose words take some 100 MB while they are added up
MOST_PARTITIONS = 512
BYTES_PER_SYMBOL = 32  # of memory while merges are learned; measured: 25
HIGHEST_LIMIT = 1 << 16  # words that occur as often are never left out
FACTS = ("documents", "text_bytes")
WORDS = Stage("words", "count_words.count_words", "group of parts", "words")
ADD_WORDS = Stage("add-words", "count_words.add_words", "partition of all words", "all-words")


def count_all_words(this: Preparation) -> tuple[list[Path], dict[str, int]]:
    """Run both stages; return files of all words, each word once, and counts of their text."""
    num_parts = len(load_parts(this.out_dir))
    num_partitions = min(MOST_PARTITIONS, -(-this.plan.bytes_in // TEXT_PER_PARTITION))
    size = max(1, min(MOST_PARTS_PER_GROUP, num_parts // GROUPS))
    num_groups = -(-num_parts // size)
    groups = list(this.run_tasks(WORDS, num_groups, size, num_partitions, this.documents))
    files = [file for group in groups for file in group["files"]]
    sums = this.run_tasks(ADD_WORDS, num_partitions, files)
    folder = open_folder(this.out_dir).path("all-words", "")  # a training works in a folder
    paths = [folder / file for done in sums for file in done["files"]]
    return paths, {fact: sum(group[fact] for group in groups) for fact in FACTS}


def count_words(
    out_dir: str, group: int, size: int, num_partitions: int, repeated: Search | None
) -> Receipt:
    """Task: leave the words of a group of `size` parts, in one file or several."""
    plan = load_plan(out_dir)
    num_parts = len(load_parts(out_dir))
    files: list[str] = []
    facts = dict.fromkeys(FACTS, 0)

    def write_file(words: Mapping[bytes, int]) -> None:
        files.append(f"{group}.{len(files)}.words")
        write_words(open_folder(out_dir).path("words", files[-1]), words, num_partitions)

    counter = WordCounter(str(plan.settings.token_pattern), write_file)
    for part in range(group * size, min((group + 1) * size, num_parts)):
        for text in _kept_text(plan, part, repeated):
            counter.add(text.data)
            num_ends = int(np.count_nonzero(text == END))
            facts["documents"] += num_ends
            facts["text_bytes"] += len(text) - num_ends
    counter.finish()
    return plan.workspace.leave_receipt("words", str(group), files, facts)


def add_words(out_dir: str, partition: int, files: list[str]) -> Receipt:
    """Task: leave the words of one partition, each once."""
    workspace = open_folder(out_dir)
    total = Counter[str]()
    for file in files:
        for word, count in read_words(workspace.path("words", file), partition).items():
            total[word] += count
    name = f"{partition}.words"
    keep(workspace.path("all-words", name), orjson.dumps(total))
    return workspace.leave_receipt("all-words", str(partition), [name], {})


def write_words(path: Path, words: Mapping[bytes, int], num_partitions: int) -> None:
    """Write counted words, spread over partitions by their hashes.

    First where each partition starts, and the last ends (8 bytes each); then JSON: {word: count}.
    """
    partitions: list[dict[str, int]] = [{} for _ in range(num_partitions)]
    for word, count in words.items():
        number = xxhash.xxh3_64_intdigest(word) % num_partitions
        partitions[number][word.decode()] = count
    data = [orjson.dumps(partition) for partition in partitions]
    first = 8 * (num_partitions + 1)
    offsets = np.cumsum([first, *map(len, data)], dtype="<u8")  # (partitions + 1,)
    with new_file(path) as file:
        file.write(offsets.data)
        file.writelines(data)


def read_words(path: Path, partition: int) -> dict[str, int]:
    """Return the counted words of one partition."""
    with open(path, "rb") as file:
        file.seek(8 * partition)
        start, stop = np.frombuffer(file.read(16), "<u8").tolist()
        file.seek(start)
        words: dict[str, int] = orjson.loads(file.read(stop - start))
    return words


def _kept_text(plan: Plan, part: int, repeated: Search | None) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the documents of a part that are kept, some at a time, as bytes with END after each."""
    described = load_parts(plan.workspace.place)[part]
    is_kept = decisions_on(plan, part, repeated, by_hash=False) != DROPPED
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


class ChosenWords(NamedTuple):
    """Words to learn merges from."""

    text: bytes
    """The words one after another."""
    lengths: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    least_count: int
    """Occurrences that a word must have; 1 where none is left out."""
    left_out: int
    """Different words that are left out."""


def choose_words(files: Sequence[Path], max_ram: int | None) -> ChosenWords:
    """Return the words that fit into the memory."""
    least_count = 1 if max_ram is None else _least_count(files, max_ram)
    texts = [b""]
    lengths = [np.empty(0, np.int64)]
    counts = [np.empty(0, np.int64)]
    left_out = 0
    for path in files:
        words = orjson.loads(path.read_bytes())
        chosen = {word.encode(): n for word, n in words.items() if n >= least_count}
        left_out += len(words) - len(chosen)
        texts.append(b"".join(chosen))
        lengths.append(np.fromiter(map(len, chosen), np.int64, len(chosen)))
        counts.append(np.fromiter(chosen.values(), np.int64, len(chosen)))
    return ChosenWords(
        b"".join(texts), np.concatenate(lengths), np.concatenate(counts), least_count, left_out
    )


def _least_count(files: Sequence[Path], max_ram: int) -> int:
    # symbols[n]: symbols of all words that occur n times: their bytes, and one per word
    symbols = np.zeros(HIGHEST_LIMIT + 1, np.int64)
    for path in files:
        for word, count in orjson.loads(path.read_bytes()).items():
            symbols[min(count, HIGHEST_LIMIT)] += len(word.encode()) + 1
    room = (max_ram - PER_DRIVER) // BYTES_PER_SYMBOL
    at_least = np.cumsum(symbols[::-1])[::-1]  # of words that occur n times or more
    if at_least[-1] > room:
        raise PrepareError(
            f"the words that occur {HIGHEST_LIMIT:,} times or more do not fit into max_ram",
            hint="allow more memory: run=Run(max_ram=...)",
        )
    return max(1, int(np.argmax(at_least <= room)))
