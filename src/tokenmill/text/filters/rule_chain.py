"""Rules one after the other: a chunk of documents goes in, what is left of it comes out.

The rules of one batch see the same `Batch` until one changes a text; a document that a rule dropped
is ignored from then on. So what a document meets depends on itself alone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.errors import PrepareError
from tokenmill.text.filters.rule import KEPT, NOTHING, REMOVED, Batch, Removed, Rule, Verdict
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
        if not self.rules:  # a later stage looks at the documents
            num_bytes = sum(map(len, chunk.texts))
            return replace(chunk, left={**chunk.left, READ: (len(chunk.texts), num_bytes, 0.0)})
        documents = Remaining(chunk, fields)
        documents.note(READ, 0.0)
        for rule in self.rules:
            started = time.perf_counter()
            if first:
                rule.check(documents.batch)
            verdict = rule.apply(documents.batch)
            documents.follow(rule, verdict)
            documents.note(rule.name, time.perf_counter() - started)
        return documents.as_chunk()

    def verdicts(self, texts: list[bytes], fields: Mapping[str, Sequence[Any]]) -> Iterator[Judged]:
        """Yield what each rule alone says about texts; what changes a text is done for the next."""
        batch = Batch.of(texts, fields)
        for rule in self.rules:
            verdict = rule.apply(batch)
            yield rule, batch, verdict
            if verdict.texts:
                new = [verdict.texts.get(at, text) for at, text in enumerate(batch.texts)]
                batch = Batch.of(new, fields)


class Remaining:
    """The documents of one chunk that no rule has dropped so far."""

    def __init__(self, chunk: Chunk, fields: Mapping[str, Sequence[Any]]) -> None:
        self._chunk = chunk
        assert chunk.numbers is not None, "documents are numbered where rules are applied"
        self._numbers = chunk.numbers  # of the documents in the batch
        self.batch = Batch.of(chunk.texts, fields)
        self._is_left = np.ones(len(self.batch), np.bool_)
        self._removed = chunk.removed
        self._dropped = dict(chunk.dropped)
        self._changed = dict(chunk.changed)
        self._left = dict(chunk.left)

    def follow(self, rule: Rule, verdict: Verdict) -> None:
        """Do what a rule says."""
        if verdict.facts:
            names = ", ".join(verdict.facts)
            raise PrepareError(
                f"{rule.name} returned facts ({names}), and no facts are kept with this dataset",
                hint="return texts and reasons alone",
            )
        dropped = np.flatnonzero(self._is_left & (verdict.reasons != KEPT))
        if len(dropped):
            self._drop(rule, verdict, dropped)
        for what, numbers in verdict.counts.items():
            key = f"{rule.name}: {what}"
            self._changed[key] = self._changed.get(key, 0) + int(numbers[self._is_left].sum())
        if verdict.texts:
            self._change(verdict)

    def note(self, step: str, seconds: float) -> None:
        """Count what is left after a step: documents, and bytes of text; and its time."""
        sizes = self.batch.ends - self.batch.starts
        self._left[step] = (int(self._is_left.sum()), int(sizes[self._is_left].sum()), seconds)

    def _drop(self, rule: Rule, verdict: Verdict, dropped: np.ndarray) -> None:
        rows = np.zeros(len(dropped), REMOVED)
        rows["number"] = self._numbers[dropped]
        rows["reason"] = verdict.reasons[dropped] - 1
        rows["value"] = verdict.values[dropped]
        rows["kept_in"] = NOTHING
        names = rule.reasons if verdict.names is None else verdict.names
        removed = Removed(rows, tuple(f"{rule.name}: {reason}" for reason in names))
        self._removed = removed if self._removed is None else self._removed + removed
        for reason, number in removed.counts().items():
            self._dropped[reason] = self._dropped.get(reason, 0) + number
        self._is_left[dropped] = False

    def _change(self, verdict: Verdict) -> None:
        texts = list(self.batch.texts)
        for number, text in verdict.texts.items():
            texts[number] = text
        left = np.flatnonzero(self._is_left)
        self._numbers = self._numbers[left]
        chosen = left.tolist()
        fields = {name: [each[at] for at in chosen] for name, each in self.batch.fields.items()}
        self.batch = Batch.of([texts[at] for at in chosen], fields)
        self._is_left = np.ones(len(left), np.bool_)

    def as_chunk(self) -> Chunk:
        texts = self.batch.texts
        left = np.flatnonzero(self._is_left)
        chunk = replace(
            self._chunk,
            removed=self._removed,
            dropped=self._dropped,
            changed=self._changed,
            left=self._left,
        )
        chunk.keep_only(np.isin(chunk.numbers, self._numbers[left]).tolist())
        chunk.texts = [texts[number] for number in left.tolist()]
        return chunk
