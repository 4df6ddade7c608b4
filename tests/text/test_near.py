"""Near-duplicates, without files: words, sketches, candidates, and what goes."""

import random
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import kernel
from tokenmill.text.near.candidates import FIRST_ONES, pair_up, unique_pairs
from tokenmill.text.near.choose import choose_kept
from tokenmill.text.near.sketch import NUM_BANDS, hash_bands
from tokenmill.text.near.word_runs import compare, hash_runs, words_of

PIECES = ("a", "Be", "x1", "_", "-", "(", " ", "  ", "\n", "\u00e9", "\u00c9", "\u00a0", "\u2019")
PIECES += ("\u4e2d\u6587", "\u0e44\u0e17", "\u3000", "\uff0c", "\U0001f642", "\ud55c", "\u042f")
PIECES += ("eightchr", "sixteencharsword", "longer than any register", ".", "\u00ab", "\ufeff")
texts = st.lists(st.sampled_from(PIECES), max_size=90).map("".join)
needs_loops = pytest.mark.skipif(kernel.compiled is None, reason="there was no C compiler")


def naive_words(text, *, code=False):
    """The rule of word_runs.py, by code points."""
    words, word = [], ""
    for char in text:
        point = ord(char)
        kind = "separator"
        if char.isascii():
            if char.isalnum() or (code and char == "_"):
                kind = "part"
            elif code and 0x20 < point < 0x7F:
                kind = "whole"
        elif point in range(0x0E00, 0x0F00) or point in range(0x3040, 0xA000) or point >= 0xF900:
            kind = "whole"
        elif not (point < 0xC0 or 0x2000 <= point < 0x2C00 or 0x3000 <= point < 0x3040):
            kind = "part"
        if kind == "part":
            word += char if code or not char.isascii() else char.lower()
            continue
        words += [word] if word else []
        word = ""
        words += [char] if kind == "whole" else []
    return [each.encode() for each in (*words, word) if each]


def without_kernel(monkeypatch, call):
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "compiled", None)
        return call()


@given(texts, st.booleans())
def test_words_are_those_of_the_rule(text, code):
    assert words_of(text.encode(), code=code) == naive_words(text, code=code)


@needs_loops
@given(st.lists(st.one_of(st.binary(max_size=150), texts.map(str.encode)), max_size=4))
def test_the_kernel_and_its_twins_agree_on_any_bytes(some):
    pairs = np.array(list(combinations(range(len(some)), 2)), np.int64).reshape(-1, 2)
    for code in (False, True):
        for width in (1, 5):
            with pytest.MonkeyPatch.context() as patch:

                def both(call, patch=patch):
                    return call(), without_kernel(patch, call)

                found, twin = both(lambda: hash_bands(some, width, code=code))  # noqa: B023
                assert all(map(np.array_equal, found, twin))
                found, twin = both(lambda: compare(some, pairs, width, code=code))  # noqa: B023
                assert all(map(np.array_equal, found, twin))


@given(texts, texts, st.booleans())
def test_similarity_is_that_of_the_sets_of_runs(one, other, code):
    def runs(text):
        words = naive_words(text, code=code)
        width = min(3, len(words))
        return {tuple(words[at : at + width]) for at in range(len(words) - width + 1) if width}

    shared, together = compare([one.encode(), other.encode()], np.array([[0, 1]]), 3, code=code)

    assert shared.tolist() == [len(runs(one) & runs(other))]
    assert together.tolist() == [len(runs(one) | runs(other))]


def test_case_and_punctuation_do_not_count_in_text_but_do_in_code():
    one, other = b"if (A == b)\n  return", b"if a b return"

    assert np.array_equal(hash_runs(one, 2), hash_runs(other, 2))
    assert not np.array_equal(hash_runs(one, 2, code=True), hash_runs(other, 2, code=True))
    spaced = b"if  ( A\n== b ) return"
    assert np.array_equal(hash_runs(one, 2, code=True), hash_runs(spaced, 2, code=True))


def test_similar_texts_share_a_band():
    """0.995 of pairs at J = 0.8 share one of ten bands; few of unlike ones do."""
    chosen = random.Random(0)

    def shared_bands(num_edits):
        found = []
        for _ in range(300):
            words = [str(chosen.randrange(10**9)) for _ in range(120)]
            copy = list(words)
            for at in chosen.sample(range(2, 118, 6), num_edits):
                copy[at] = "another"
            both = [" ".join(words).encode(), " ".join(copy).encode()]
            shared, together = compare(both, np.array([[0, 1]]), 5)
            bands, _ = hash_bands(both, 5)
            found.append((shared[0] / together[0], (bands[0] == bands[1]).any()))
        return np.array(found).T

    similarity, is_found = shared_bands(1)
    assert similarity.min() > 0.8
    assert is_found.mean() > 0.98
    similarity, is_found = shared_bands(16)
    assert similarity.max() < 0.3
    assert is_found.mean() < 0.1


def test_a_text_without_words_has_no_sketch_and_a_short_one_has():
    bands, counts = hash_bands([b"", b" ?!", b"one", b"One.", b"one two"], 5)

    assert counts.tolist() == [0, 0, 1, 1, 1]
    assert np.array_equal(bands[2], bands[3])
    assert not (bands[2] == bands[4]).any()


def test_small_groups_give_all_pairs_and_large_ones_few():
    small = {1: [5, 2, 9], 2: [7], 3: [4, 8]}
    keys = np.array([key for key, group in small.items() for _ in group], np.uint64)
    documents = np.array([number for group in small.values() for number in group], np.uint64)
    pairs = pair_up(keys, documents, lambda numbers: numbers)
    assert sorted(map(tuple, pairs.tolist())) == [(5, 2), (8, 4), (9, 2), (9, 5)]

    many = np.arange(1000, dtype=np.uint64)
    pairs = unique_pairs(pair_up(np.zeros(1000, np.uint64), many, lambda numbers: 999 - numbers))
    assert len(pairs) <= (FIRST_ONES + 1) * 1000
    for first in (999, 998, 997, 996):  # those of the least rank are paired with all
        assert len(set(pairs[(pairs == first).any(axis=1)].ravel().tolist())) == 1000


@given(st.integers(2, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(
    st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
))))  # fmt: skip
def test_what_goes_is_like_one_that_stays_and_what_stays_like_none_that_stays(example):
    number, pairs = example
    order = random.Random(0).sample(sorted(pairs), len(pairs))
    edges = np.array(order, np.int64).reshape(-1, 2)

    kept = choose_kept(edges, np.linspace(0.8, 1, len(edges)), number).tolist()

    for document, instead in enumerate(kept):
        if instead >= 0:
            assert (instead, document) in pairs
            assert kept[instead] == -1
        else:
            lower = [a for a, b in pairs if b == document]
            assert all(kept[other] >= 0 for other in lower)


def test_a_chain_loses_every_second_one():
    edges = np.array(list(pairwise(range(7))))

    assert choose_kept(edges, np.ones(6), 7).tolist() == [-1, 0, -1, 2, -1, 4, -1]


def test_all_sketches_have_as_many_bands_as_the_search_expects():
    assert hash_bands([b"one two three four five six"], 5)[0].shape == (1, NUM_BANDS)
