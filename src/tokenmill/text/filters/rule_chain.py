"""Rules one after the other: a chunk of documents goes in, what is left of it comes out.

The rules of one batch see the same `Batch` until one changes a text; a document that a rule dropped
is ignored from then on. So what a document meets depends on itself alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokenmill.text.filters.rule import KEPT, NOTHING, REMOVED, Batch, Removed, Rule, Verdict
from tokenmill.text.reading.chunks import Chunk

READ = "read"


class RuleChain:
    """The rules of a preparation, in order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    def apply(self, chunk: Chunk) -> Chunk:
        """Return the chunk without the documents that a rule drops, and with changed texts."""
        documents = Remaining(chunk)
        documents.note(READ)
        for rule in self.rules:
            documents.follow(rule, rule.apply(documents.batch))
        return documents.as_chunk()


class Remaining:
    """The documents of one chunk that no rule has dropped so far."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        assert chunk.numbers is not None, "documents are numbered where rules are applied"
        self._numbers = chunk.numbers  # of the documents in the batch
        self.batch = Batch.of(chunk.texts)
        self._is_left = np.ones(len(self.batch), np.bool_)
        self._removed = chunk.removed
        self._dropped = dict(chunk.dropped)
        self._changed = dict(chunk.changed)
        self._left = dict(chunk.left)

    def follow(self, rule: Rule, verdict: Verdict) -> None:
        """Do what a rule says."""
        dropped = np.flatnonzero(self._is_left & (verdict.reasons != KEPT))
        if len(dropped):
            self._drop(rule, verdict, dropped)
        for what, numbers in verdict.counts.items():
            key = f"{rule.name}: {what}"
            self._changed[key] = self._changed.get(key, 0) + int(numbers[self._is_left].sum())
        if verdict.texts:
            self._change(verdict)
        self.note(rule.name)

    def note(self, step: str) -> None:
        """Count what is left after a step: documents, and bytes of text."""
        sizes = self.batch.ends - self.batch.starts
        self._left[step] = (int(self._is_left.sum()), int(sizes[self._is_left].sum()))

    def _drop(self, rule: Rule, verdict: Verdict, dropped: np.ndarray) -> None:
        rows = np.zeros(len(dropped), REMOVED)
        rows["number"] = self._numbers[dropped]
        rows["reason"] = verdict.reasons[dropped] - 1
        rows["value"] = verdict.values[dropped]
        rows["kept_in"] = NOTHING
        removed = Removed(rows, tuple(f"{rule.name}: {reason}" for reason in rule.reasons))
        self._removed = removed if self._removed is None else self._removed + removed
        for reason, number in removed.counts().items():
            self._dropped[reason] = self._dropped.get(reason, 0) + number
        self._is_left[dropped] = False

    def _change(self, verdict: Verdict) -> None:
        texts = self.batch.texts
        for number, text in verdict.texts.items():
            texts[number] = text
        left = np.flatnonzero(self._is_left)
        self._numbers = self._numbers[left]
        self.batch = Batch.of([texts[number] for number in left.tolist()])
        self._is_left = np.ones(len(left), np.bool_)

    def as_chunk(self) -> Chunk:
        texts = self.batch.texts
        left = np.flatnonzero(self._is_left)
        return replace(
            self._chunk,
            texts=[texts[number] for number in left.tolist()],
            numbers=self._numbers[left],
            removed=self._removed,
            dropped=self._dropped,
            changed=self._changed,
            left=self._left,
        )
