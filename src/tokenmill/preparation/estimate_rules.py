"""What each rule would do to some documents, had it been the only one, with examples."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tokenmill.base.human import one_line
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.filtered_text import fields_of, is_document, load_rules
from tokenmill.text.filters.rule import KEPT, Batch, Rule, Verdict
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading.chunks import Chunk

EXAMPLES = 5
_SHOWN = 70  # characters of an example


@dataclass
class RuleEstimate:
    """One rule, and the documents of the sample."""

    name: str
    documents: int = 0
    """Documents that it looked at."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Those that it would drop, by reason."""
    changed: int = 0
    """Those whose text it would change."""
    examples: list[str] = field(default_factory=list)
    """The first that it would drop, or else change: source, reason, value, and the text."""

    def lines(self) -> Iterator[str]:
        """Yield the lines for people."""
        dropped = sum(self.dropped.values())
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items())
        yield (
            f"{self.name:<11} alone drops {dropped / max(1, self.documents):.1%} of what was read"
            + (f" ({reasons})" if reasons else "")
            + (f", changes {self.changed / self.documents:.1%}" if self.changed else "")
        )
        yield from (f"            {example}" for example in self.examples)

    def add(self, source: str, rule: Rule, batch: Batch, verdict: Verdict) -> None:
        """Count what the rule says about some documents."""
        self.documents += len(batch)
        dropped = np.flatnonzero(verdict.reasons != KEPT)
        names = rule.reasons if verdict.names is None else verdict.names
        counts = Counter(names[code - 1] for code in verdict.reasons[dropped].tolist())
        self.dropped = dict(Counter(self.dropped) + counts)
        self.changed += len(verdict.texts)
        left = EXAMPLES - len(self.examples)
        for at in (dropped.tolist() or [*verdict.texts])[:left]:
            start = int(batch.starts[at])
            end = min(int(batch.ends[at]), start + 4 * _SHOWN)
            text = one_line(batch.whole[start:end].decode("utf-8", "ignore")[:_SHOWN])
            why = "changed"
            if len(dropped):
                value = verdict.values[at]
                why = names[verdict.reasons[at] - 1] + ("" if np.isnan(value) else f" {value:.4g}")
            self.examples.append(f'{source}: {why}: "{text}"')


def judge(settings: Settings, source: Source, chunk: Chunk, rules: list[RuleEstimate]) -> Chunk:
    """Count what each rule alone would do to a chunk, and return what all of them leave of it."""
    chain = load_rules(settings)
    paths = {"path": [source.name] * len(chunk.texts)} if is_document(source, settings) else {}
    fields = {**paths, **fields_of(chunk)}
    if not rules:
        rules += [RuleEstimate(rule.name) for rule in chain.rules]
    for found, judged in zip(rules, chain.verdicts(chunk.texts, fields), strict=True):
        found.add(source.name, *judged)
    chunk.numbers = np.arange(len(chunk.texts), dtype=np.uint32)
    return chain.apply(chunk, fields)
