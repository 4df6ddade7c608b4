"""Promise: a seed changes a row in the same way in every release.

A run resumes by number: if one of these values changed, a saved state would silently resume with
rows augmented in another way. A new way needs a new `version` of its augmentation (so that old
states are refused), a changelog line, and new values here.
"""

import hashlib

import numpy as np
import pytest

from tokenmill import BatchLoader
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.augment.row_random import RowRandom
from tokenmill.dataset import from_array

FIM = FillInTheMiddle(0.5, 0.5, prefix_id=701, middle_id=702, suffix_id=703)
DROP, REPLACE, MASK = DropTokens(0.1), ReplaceTokens(0.1), MaskTokens(0.15, mask_id=704)


def test_the_numbers_of_a_row():
    random = RowRandom(42, 1, np.array([0, 1, 10**12]))

    bits = random.bits(np.array([0, 1, 2, 2]), np.array([0, 5, 0, 1000]), 3)
    assert [hex(number) for number in bits.tolist()] == [
        "0xf33f2e2adaaa205d",
        "0x6de17423892cc204",
        "0xf1d554bb7be11c03",
        "0xa330518b19ead04e",
    ]
    assert random.chosen(0.4, 12).astype(int).tolist() == [
        [0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("augment", "first", "whole", "fingerprint"),
    [
        ([FIM], [196, 197, 198, 700, 701, 200], "13f440d989173df6", "5830cab68d7745dc"),
        ([DROP], [196, 197, 700, 202, 203, 204], "e8c3663055a89883", "99832776d1fcc143"),
        ([REPLACE], [196, 197, 219, 700, 232, 433], "dbefa14aa53b4ed6", "9bf8c9ebc102c502"),
        ([MASK], [196, 197, 704, 700, 231, 704], "72b400a169bba879", "840d917c7ed9bd26"),
        (
            [FIM, DROP, REPLACE, MASK],
            [196, 197, 700, 701, 201, 704],
            "53e0d23f7b908f5e",
            "845422558f6ae6da",
        ),
    ],
    ids=["fim", "drop", "replace", "mask", "all"],
)
def test_twenty_steps_of_every_augmentation(augment, first, whole, fingerprint):
    ids = np.arange(3000, dtype=np.uint16) % 700
    ids[99::100] = 700
    data = from_array(ids, end_of_text=700, vocab_size=710)
    loader = BatchLoader(data, batch_size=4, block_size=128, seed=42, augment=augment)

    batches = [next(loader) for _ in range(20)]

    tables = [*(batch.tokens for batch in batches), *(batch.labels for batch in batches)]
    data = b"".join(np.ascontiguousarray(table, "<i8").tobytes() for table in tables)
    assert batches[0].tokens[0, :6].tolist() == first
    assert hashlib.sha256(data).hexdigest()[:16] == whole
    assert loader.state_dict()["order_fingerprint"] == fingerprint
