"""ids-beyond-vocabulary and one-token: ids that no text of this tokenizer has."""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient, percent

LEAST = 1000  # tokens from which shares mean something
TOO_COMMON = 0.5  # share of one id; the space of character-level text has 0.18


def check(patient: Patient) -> Iterator[Finding]:
    """The largest id against the vocabulary, and the most common one."""
    ids, data = patient.ids, patient.data
    if not len(ids):
        return
    largest, limit = int(ids.max()), data.vocab_size
    if limit is not None and largest >= limit:
        beyond = int((ids >= limit).sum())
        first = next(
            block.start + int((block.ids >= limit).argmax())
            for block in patient.blocks
            if int(block.ids.max(initial=0)) >= limit
        )
        yield Finding(
            "ids-beyond-vocabulary",
            patient.split,
            f"{beyond:,} of {len(ids):,} ids are {limit:,} or more, the vocabulary ends at "
            f"{limit - 1:,}; the largest is {largest:,}, the first at token {first:,}",
            "these ids are of another tokenizer, or the file is damaged there: look with "
            f"`tokenmill show PATH --tokens {max(0, first - 8)}:{first + 8}`",
        )
    if len(ids) >= LEAST:
        # An id that is more than half of all is the median.
        common = int(np.partition(ids, len(ids) // 2)[len(ids) // 2])
        count = int((ids == common).sum())
        if count / len(ids) > TOO_COMMON:
            yield Finding(
                "one-token",
                patient.split,
                f"{percent(count, len(ids))} of the tokens are id {common}",
                "a tokenizer that does not know the text writes its unknown token everywhere: "
                "prepare the text again with one that does",
            )
