"""Sorted hashes find what a set finds."""

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.text.cleaning.dedup import HASH, find_on_other_side, find_repeated, hash_all

# Hashes that meet in one half, in both, or at the edges of partitions.
few = st.sampled_from([0, 1, 2, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, 12345])
pairs = st.tuples(few, few)


@given(st.lists(pairs, max_size=60))
def test_repeated_hashes_are_those_a_set_finds(values):
    expected = [at for at, value in enumerate(values) if value in values[:at]]
    assert sorted(find_repeated(np.array(values, HASH)).tolist()) == expected


@given(st.lists(st.tuples(pairs, st.booleans()), max_size=60))
def test_hashes_that_are_first_on_the_other_side(entries):
    first = {}
    for value, is_held_out in entries:
        first.setdefault(value, is_held_out)
    expected = [at for at, (value, side) in enumerate(entries) if first[value] != side]
    values, sides = [value for value, _ in entries], np.array([side for _, side in entries], bool)
    assert sorted(find_on_other_side(np.array(values, HASH), sides).tolist()) == expected


def test_a_hash_is_xxh3_128():
    high, low = hash_all([b"text"])[0].tolist()
    digest = xxhash.xxh3_128_digest(b"text")
    assert (high.to_bytes(8, "little"), low.to_bytes(8, "little")) == (digest[:8], digest[8:])
