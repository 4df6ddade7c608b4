"""The text of units after its rules: mapped, cleaned, masked, filtered."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import orjson

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.unit_text import read_chunks
from tokenmill.text.filters.rule import load_filter
from tokenmill.text.filters.rule_chain import RuleChain
from tokenmill.text.reading.chunks import Chunk


def filtered_chunks(plan: Plan, unit: int) -> Iterator[Chunk]:
    """Read one unit, number its documents, and apply the rules of the plan to them."""
    rules = rule_chain(plan.settings)
    num_texts = 0
    is_one_file = len(plan.sources_of(unit)) == 1
    for chunk in read_chunks(plan, unit):
        chunk.numbers = np.arange(num_texts, num_texts + len(chunk.texts), dtype=np.uint32)
        num_texts += len(chunk.texts)
        if is_one_file:
            chunk.texts_by_source = {0: num_texts}
        yield rules.apply(chunk)


def rule_chain(settings: Settings) -> RuleChain:
    """The rules of a preparation, loaded once per process."""
    return _load(settings.filter, orjson.dumps(settings.filter_config))


@lru_cache(maxsize=1)
def _load(filters: str | None, thresholds: bytes) -> RuleChain:
    known = orjson.loads(thresholds)
    names = filters.split(",") if filters else []
    return RuleChain([load_filter(name, known[name]) for name in names])
