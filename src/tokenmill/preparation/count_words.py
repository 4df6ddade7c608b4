"""Count the words of all documents that are kept: in groups of parts, then all groups together.

words: the documents of a group are counted in memory, and written whenever many words are known.
add-words: what the groups wrote is added up, a partition of the hashes at a time. The sums do not
depend on what was counted where, so any number of workers gives the same.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stage_table import Preparation, Stage
from tokenmill.preparation.stages.decide import DROPPED, Decision, decisions_on
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.word_runs import CountedWords, add_up, partition_bounds
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.tokens.words import END, WordCounter

MOST_PARTS_PER_GROUP = 8  # of 16 MB of text
GROUPS = 16  # at least, where there are enough parts: for as many workers
DOCUMENTS_AT_ONCE = 4 << 20  # bytes
WORDS_PER_PARTITION = 1 << 20  # some 100 MB while they are added up
FACTS = ("documents", "text_bytes")


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


WORDS = Stage("words", "count_words.count_words", "group of parts", "words")
ADD_WORDS = Stage("add-words", "count_words.add_words", "million words", "all-words")


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
