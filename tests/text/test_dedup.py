"""Sorted runs and partitions find what a set finds."""

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.text.cleaning.dedup import HASH, find_duplicates, hash_all, make_run, slice_of

# Hashes that meet in one half, in both, or at the edges of partitions.
few = st.sampled_from([0, 1, 2, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, 12345])
hashes = st.lists(st.tuples(few, few), max_size=30)


@given(st.lists(hashes, max_size=6), st.integers(1, 5))
def test_duplicates_are_those_a_set_finds(units, num_partitions):
    seen, expected = set(), set()
    for unit, found in enumerate(units):
        for ordinal, value in enumerate(found):
            if value in seen:
                expected.add((unit, ordinal))
            seen.add(value)
    runs = [
        make_run(np.array(found, HASH), np.arange(len(found), dtype=np.uint32)) for found in units
    ]
    again = {(unit, int(at)) for unit, run in enumerate(runs) for at in run.repeated}
    for partition in range(num_partitions):
        slices = []
        for unit, run in enumerate(runs):
            part = slice_of(run.hashes, partition, num_partitions)
            slices.append((unit, run.hashes[part], run.ordinals[part]))
        found = find_duplicates(slices)
        assert found.units.tolist() == sorted(found.units.tolist())
        again |= set(zip(found.units.tolist(), found.ordinals.tolist(), strict=True))
    assert again == expected


def test_a_hash_is_xxh3_128():
    high, low = hash_all([b"text"])[0].tolist()
    digest = xxhash.xxh3_128_digest(b"text")
    assert (high.to_bytes(8, "little"), low.to_bytes(8, "little")) == (digest[:8], digest[8:])
