"""Rules one after the other: a chunk of documents goes in, what is left of it comes out.

What a document meets depends on itself alone: rules see the same `Batch` until one changes a text,
and what they say of a document that was dropped before is ignored.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.errors import PrepareError
from tokenmill.text.filters.rule import (
    KEPT,
    NONE_REMOVED,
    NOTHING,
    REMOVED,
    Batch,
    Removed,
    Rule,
    Verdict,
)
from tokenmill.text.reading.chunks import Chunk

READ = "read"
Judged = tuple[Rule, Batch, Verdict]


class RuleChain:
    """The rules of a preparation, in order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    def apply(
        self, chunk: Chunk, fields: Mapping[str, Sequence[Any]], *, first: bool = False
    ) -> Chunk:
        """Return the chunk without the documents that a rule drops, and with changed texts.

        The `first` one of a unit is also used to check the rules.
        """
        batch = Batch.of(chunk.texts, fields)
        removed, changed = NONE_REMOVED, Counter[str]()
        left = {READ: (*batch.size_left, 0.0)}
        for rule in self.rules:
            started = time.perf_counter()
            if first:
                rule.check(batch)
            verdict = rule.apply(batch)
            if verdict.facts:
                keep_facts(chunk, rule, verdict)
            removed += leave_out(batch, rule, verdict, chunk.numbers)
            for what, numbers in verdict.counts.items():
                changed[f"{rule.name}: {what}"] += int(numbers @ batch.is_left)
            batch = batch.with_texts(verdict.texts)
            left[rule.name] = (*batch.size_left, time.perf_counter() - started)
        out = replace(
            chunk,
            texts=batch.texts,
            dropped=dict(Counter(chunk.dropped) + Counter(removed.counts())),
            removed=removed,
            changed=dict(changed),
            left=left,
        )
        out.keep_only(batch.is_left.astype(bool).tolist())
        return out

    def verdicts(self, texts: list[bytes], fields: Mapping[str, Sequence[Any]]) -> Iterator[Judged]:
        """Yield what each rule alone says about texts; what changes a text is done for the next."""
        batch = Batch.of(texts, fields)
        for rule in self.rules:
            verdict = rule.apply(batch)
            yield rule, batch, verdict
            batch = batch.with_texts(verdict.texts)


def leave_out(batch: Batch, rule: Rule, verdict: Verdict, numbers: np.ndarray) -> Removed:
    """Note in the batch which documents a rule drops, and return them by their `numbers`."""
    dropped = np.flatnonzero(batch.is_left & (verdict.reasons != KEPT))
    if not len(dropped):
        return NONE_REMOVED
    batch.is_left[dropped] = 0
    rows = np.zeros(len(dropped), REMOVED)
    rows["number"] = numbers[dropped]
    rows["reason"] = verdict.reasons[dropped] - 1
    rows["value"] = verdict.values[dropped]
    rows["kept_in"] = NOTHING
    return Removed(rows, tuple(f"{rule.name}: {reason}" for reason in rule.names(verdict)))


def keep_facts(chunk: Chunk, rule: Rule, verdict: Verdict) -> None:
    """Keep what a rule found out about documents with their other facts."""
    if chunk.kept is None:
        raise PrepareError(
            f"{rule.name} returned facts ({', '.join(verdict.facts)}), and no facts are kept with "
            "this dataset",
            hint="keep them: facts=True; or return texts and reasons alone",
        )
    chunk.kept = chunk.kept.with_values(verdict.facts, rule.name)
