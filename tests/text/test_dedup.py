"""Sorted runs and partitions find what a set finds."""

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.text.cleaning.dedup import (
    HASH,
    find_duplicates,
    hash_all,
    make_run,
    partition_bounds,
)

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
        make_run(np.array(found, HASH), np.arange(len(found), dtype=np.uint64) + 100 * unit)
        for unit, found in enumerate(units)
    ]
    again = [place for run in runs for place in run.repeated.tolist()]
    for partition in range(num_partitions):
        low, high = partition_bounds(partition, num_partitions)
        inside = [
            np.array([low <= value < high for value in run.hashes["high"].tolist()], bool)
            for run in runs
        ]
        hashes = np.concatenate(
            [np.empty(0, HASH), *(r.hashes[i] for r, i in zip(runs, inside, strict=True))]
        )
        places = np.concatenate(
            [np.empty(0, "u8"), *(r.places[i] for r, i in zip(runs, inside, strict=True))]
        )
        found = find_duplicates(hashes, places).tolist()
        assert found == sorted(found) == make_run(hashes, places).repeated.tolist()
        again += found
    assert sorted(again) == [100 * unit + ordinal for unit, ordinal in sorted(expected)]


def test_a_hash_is_xxh3_128():
    high, low = hash_all([b"text"])[0].tolist()
    digest = xxhash.xxh3_128_digest(b"text")
    assert (high.to_bytes(8, "little"), low.to_bytes(8, "little")) == (digest[:8], digest[8:])
