"""Count the words of all documents that are kept: in groups of parts, then all groups together.

words: the documents of a group are counted in memory, and written whenever many words are known.
add-words: what the groups wrote is added up, a partition of the hashes at a time. The sums do not
depend on what was counted where, so any number of workers gives the same.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stage_table import Preparation, Stage
from tokenmill.preparation.stages.decide import DROPPED, Decision, decisions_on
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.words.word_runs import CountedWords, add_up
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.work_folder import leaves_receipt
from tokenmill.text.cleaning.dedup import partition_bounds
from tokenmill.tokens.training.words import END, WordCounter

MOST_PARTS_PER_GROUP = 8  # of 16 MB of text
GROUPS = 16  # at least, where there are enough parts: for as many workers
DOCUMENTS_AT_ONCE = 4 << 20  # bytes
WORDS_PER_PARTITION = 1 << 20  # some 100 MB while they are added up
FACTS = ("documents", "text_bytes")
Run = tuple[str, int]
"""The name of a file of counted words, and how many there are."""
WordFile = tuple[Path, int]
"""The same by its path."""


@leaves_receipt(lambda _, group, *__: ("words", str(group)))
def count_words(out_dir: str, group: int, size: int, decision: Decision) -> Receipt:
    """Task: leave the words of a group of so many parts, in one run or several."""
    plan, parts = load_plan(out_dir), load_parts(out_dir)
    runs, facts = list[Run](), dict.fromkeys(FACTS, 0)

    def write_run(words: dict[bytes, int]) -> None:
        runs.append((f"{group}.{len(runs)}.words", len(words)))
        CountedWords.of(words).write(plan.workspace.path("words", runs[-1][0]))

    counter = WordCounter(str(plan.settings.token_pattern), write_run)
    for part in range(group * size, min((group + 1) * size, len(parts))):
        for text in _kept_text(plan, part, decision):
            counter.add(text.data)
            num_ends = int(np.count_nonzero(text == END))
            facts["documents"] += num_ends
            facts["text_bytes"] += len(text) - num_ends
    counter.finish()
    found = {"runs": runs, **facts}
    return plan.workspace.leave_receipt("words", str(group), [name for name, _ in runs], found)


@leaves_receipt(lambda _, partition, *__: ("all-words", str(partition)))
def add_words(out_dir: str, partition: int, num_partitions: int, runs: list[Run]) -> Receipt:
    """Task: leave the words of one partition, each once."""
    workspace = load_plan(out_dir).workspace
    name, bounds = f"{partition}.words", partition_bounds(partition, num_partitions)
    read = (CountedWords.read(workspace.path("words", run), num) for run, num in runs)
    found = add_up(run.between(*bounds) for run in read)
    found.write(workspace.path("all-words", name))
    facts = {"runs": [(name, len(found.counts))]}
    return workspace.leave_receipt("all-words", str(partition), [name], facts)


def count_all_words(this: Preparation) -> tuple[list[WordFile], dict[str, int]]:
    """Run both stages: files of all words, each word once; how much text they are from."""
    workspace, num_parts = this.plan.workspace, len(load_parts(this.out_dir))
    decision = Decision(by_hash=False, documents=this.documents)
    size = max(1, min(MOST_PARTS_PER_GROUP, num_parts // GROUPS))
    groups = this.run_tasks(WORDS, -(-num_parts // size), (size, decision))
    runs = [run for receipt in groups for run in receipt["runs"]]
    num_partitions = -(-sum(num for _, num in runs) // WORDS_PER_PARTITION)
    sums = this.run_tasks(ADD_WORDS, num_partitions, (num_partitions, runs))
    files = [
        (workspace.path("all-words", name), num) for done in sums for name, num in done["runs"]
    ]
    return files, {what: sum(done[what] for done in groups) for what in FACTS}


WORDS = Stage("words", count_words, "group of parts")
ADD_WORDS = Stage("add-words", add_words, "million words")


def _kept_text(plan: Plan, part: int, decision: Decision) -> Iterator[np.ndarray[Any, Any]]:
    """The documents of a part that are kept, some at a time, as bytes with END after each."""
    described = load_parts(plan.workspace.out_dir)[part]
    kept = decisions_on(plan, part, decision) != DROPPED
    if len(described.files) > 1:  # one long document, in files that end where it may be cut
        for ids in described.token_arrays(plan) if kept[0] else ():
            yield _as_text(plan, ids)
        return
    (tokens,) = described.token_arrays(plan)
    lengths = described.rows(plan)["length"].astype(np.int64)
    ends = np.cumsum(lengths)
    first = 0
    start = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, start + DOCUMENTS_AT_ONCE, "right")))
        stop = int(ends[last - 1])
        ids = tokens[start:stop]
        if not kept[first:last].all():
            ids = ids[np.repeat(kept[first:last], lengths[first:last])]
        yield _as_text(plan, ids)
        first = last
        start = stop


def _as_text(plan: Plan, ids: np.ndarray) -> np.ndarray[Any, Any]:
    """Ids of the tokenizer `bytes` as bytes, with END for end-of-text."""
    text = ids.astype(np.uint8)
    text[ids == plan.tokenizer.end_of_text_id] = END
    return text
