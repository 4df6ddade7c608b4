"""Cleaning as one of the rules: those of `--clean`, where documents are also filtered."""

import numpy as np

from tokenmill.text.cleaning.clean import clean
from tokenmill.text.filters.rule import Batch, Rule, Verdict


class CleanRule(Rule):
    """Cleans texts; none is dropped."""

    name = "clean"

    def apply(self, batch: Batch) -> Verdict:
        before = batch.texts
        pairs = enumerate(zip(before, clean(before).texts, strict=True))
        texts = {number: new for number, (old, new) in pairs if new != old}
        return Verdict(np.zeros(len(batch), np.uint16), np.full(len(batch), np.nan), texts)
