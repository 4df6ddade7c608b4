"""Copies of test items, without files: what is found, and what counts."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import kernel
from tokenmill.errors import TokenmillError
from tokenmill.preparation.stages.contamination import cut_words
from tokenmill.text.evals.items import Passage, name_sets, read_passages
from tokenmill.text.evals.judge import judge
from tokenmill.text.evals.known_runs import KnownRuns

WORDS = [b"one", b"two", b"three", b"longer", b"five"]
passages = st.lists(st.lists(st.sampled_from(WORDS), max_size=18), min_size=1, max_size=5)


def known_runs(all_words, width=8):
    return KnownRuns.of([Passage("set", at, words) for at, words in enumerate(all_words)], width)


def naive_hits(texts, all_words, width):
    """Every place of a text where a run, or a whole short passage of 5 words or more, begins."""
    found = set()
    for number, text in enumerate(texts):
        words = text.lower().split()
        for passage in all_words:
            size = min(width, len(passage))
            for begin in range(len(passage) - size + 1 if size >= min(5, width) else 0):
                run = passage[begin : begin + size]
                starts = range(len(words) - size + 1)
                found |= {(number, at, tuple(run)) for at in starts if words[at : at + size] == run}
    return found


@given(passages, st.lists(st.lists(st.sampled_from(WORDS), max_size=40), max_size=4), st.booleans())
def test_hits_are_all_places_where_the_words_are(all_words, documents, has_kernel):
    if has_kernel and kernel.compiled is None:
        return
    texts = [b" ".join(words) for words in documents]
    known = known_runs(all_words)
    with pytest.MonkeyPatch.context() as patch:
        if not has_kernel:
            patch.setattr(kernel, "compiled", None)
        hits = known.find(texts)

    owners = known.starts[hits[:, 2]]
    found = set()
    for (text, word, run), owner in zip(hits.tolist(), owners, strict=True):
        begin = known.positions[owner]
        words = known.words[known.passages[owner]][begin : begin + known.size_of(run)]
        found.add((text, word, tuple(words)))
    assert found == naive_hits(texts, all_words, 8)


@given(passages)
def test_known_runs_are_read_as_they_were_written(all_words):
    known = known_runs(all_words)
    again = KnownRuns.from_bytes(known.to_bytes())

    assert again.words == known.words
    assert all(
        np.array_equal(getattr(again, name), getattr(known, name))
        for name in ("hashes", "starts", "passages", "positions")
    )


def texts_with(passage, number, others):
    chosen = random.Random(0)
    fill = [b"%d" % chosen.randrange(10**9) for _ in range(number * 20)]
    return [b" ".join(fill[at * 20 : at * 20 + 20] + passage) for at in range(number)] + others


def documents_found(known, texts):
    hits = known.find(texts)
    return judge(known, hits[:, 0], hits[:, 2])


def test_what_is_in_many_documents_counts_only_with_half_of_its_item():
    instruction = [b"answer%d" % at for at in range(13)]
    item = instruction + [b"item%d" % at for at in range(30)]
    known = known_runs([item], width=13)

    found = documents_found(known, texts_with(instruction, 11, [b" ".join(item)]))

    assert found.documents.tolist() == [11]
    assert found.boilerplate == 1
    assert documents_found(known, texts_with(item, 30, [])).documents.tolist() == list(range(30))
    assert documents_found(known, texts_with(instruction, 10, [])).documents.tolist() == [
        *range(10)
    ]


def test_what_several_items_have_in_common_does_not_count():
    common = [b"common%d" % at for at in range(13)]
    items = [common + [b"item%dx%d" % (number, at) for at in range(40)] for number in range(4)]
    known = known_runs(items, width=13)

    assert not len(documents_found(known, [b" ".join(common)]).documents)
    found = documents_found(known, [b" ".join(common), b" ".join(items[2])])
    assert (found.documents.tolist(), found.passages.tolist()) == ([1], [2])


def test_items_are_read_by_their_fields(tmp_path):
    path = tmp_path / "quiz.jsonl"
    path.write_text('{"question": "Who?", "choices": ["a"], "answer": {"text": ["It was Ann."]}}\n')
    names = name_sets(str(tmp_path / "*.jsonl"))

    assert names.startswith("quiz.jsonl@")
    assert [p.words for p in read_passages(names, None)] == [[b"who"], [b"it", b"was", b"ann"]]
    assert [p.words for p in read_passages(names, "choices")] == [[b"a"]]
    with pytest.raises(TokenmillError, match="no field of line 1"):
        list(read_passages(names, "text"))
    path.write_text("not JSON\n")
    assert name_sets([path]) != names
    with pytest.raises(TokenmillError, match=r"quiz.jsonl, line 1"):
        list(read_passages(name_sets([path]), None))
    with pytest.raises(ValueError, match=r"no file .*none\.jsonl"):
        name_sets(str(tmp_path / "none.jsonl"))


def test_words_are_cut_with_what_is_between_them():
    assert cut_words(b"One, two; (three) four", [(1, 2), (2, 3)]) == b"One, four"
    assert cut_words(b"One, two.", [(0, 2)]) == b"."
    assert cut_words(b"One two three", [(2, 3)]) == b"One two "
