"""The published filters decide as datatrove does, and the kernel as plain Python does."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import kernel
from tokenmill.preparation import Details
from tokenmill.text.filters.counts import split_batch
from tokenmill.text.filters.gopher_quality import GopherQuality
from tokenmill.text.filters.gopher_repetition import GopherRepetition
from tokenmill.text.filters.rule import Batch, load_filter
from tokenmill.text.filters.word_rule import known_forms, split_words

DECISIONS = Path(__file__).parents[1] / "data" / "filters" / "datatrove.jsonl"
NAMES = ["gopher_quality", "gopher_repetition", "c4", "fineweb"]
# The words of datatrove for the reasons of each filter, in the order of ours.
THEIRS = {
    "gopher_quality": """short_doc long_doc below_avg_threshold above_avg_threshold too_many_hashes
        too_many_ellipsis too_many_bullets too_many_end_ellipsis below_alpha_threshold
        enough_stop_words""",
    "gopher_repetition": """dup_para_frac dup_para_char_frac dup_line_frac dup_line_char_frac
        top_2_gram top_3_gram top_4_gram duplicated_5_n_grams duplicated_6_n_grams
        duplicated_7_n_grams duplicated_8_n_grams duplicated_9_n_grams duplicated_10_n_grams""",
    "c4": "lorem_ipsum curly_bracket too_few_sentences",
    "fineweb": "empty line_punct_ratio short_line_ratio char_dup_ratio list_ratio",
}
needs_loops = pytest.mark.skipif(
    kernel.compiled is None, reason="tokenmill.kernel.loops is not built: there was no C compiler"
)
FRAGMENTS = [
    *known_forms(), *"()[]{}<>.,:;-_=/*+^~'\"!?#&$%@|\\", "\u2026", "\u2022", "\u2014", "\u2013",
    "...", "--", " ", "\n", "\n\n", "\r\n", "\x1c", "\u2028", "\u3000", "\x85", "a", "B", "word",
    "Word", "the", "and", "12", "km", "\u00e9", "\u4e2d", "\U0001f600", "\U00020000", "e\u0301",
    "1,000.5", "'s", "www.a-b.com/c-d", "me@a.org", "http://", "lorem ipsum", "JavaScript",
    "use cookies", "[12]", "[edit]", "A sentence of the words that are here.", "- item ",
    "\u00b2", "\u20ac",
]  # fmt: skip
texts = st.lists(
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3).filter(str.isprintable), max_size=40)
    .map("".join)
    .map(lambda text: text.encode("utf-8", "replace").decode()),
    max_size=6,
)


def verdict_of(rule, documents):
    found = rule.apply(Batch.of([text.encode() for text in documents]))
    counts = {what: numbers.tolist() for what, numbers in found.counts.items()}
    return found.reasons.tolist(), found.values.tolist(), found.texts, counts


def decisions():
    return [json.loads(line) for line in DECISIONS.read_text().splitlines()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("One, two.", "One|,|two|."),
        ("(\u201cWhat?!\u201d)", "(|\u201c|What|?|!|\u201d|)"),
        (
            "Don't; it's can\u2019t we\u2019ll cannot its",
            "Do|n't|;|it|'s|ca|n\u2019t|we|\u2019ll|can|not|its",
        ),
        ("U.S. e.g. Dr. No. 3.14 a.b end.Next x.", "U.S.|e.g.|Dr.|No|.|3.14|a.b|end|.|Next|x."),
        ("well-known and/or 3-4 a--b -x", "well|-|known|and/or|3|-|4|a|--|b|-x"),
        ("10km $5.00 50% 5's C++ f(x)=1", "10|km|$|5.00|50|%|5|'s|C++|f(x)=1"),
        ("see www.a-b.com/c-d?e=f, a/b", "see|www.a-b.com/c-d?e=f|,|a|/|b"),
        ("wait... no\u2026 :) x[:] \U0001f600!", "wait|...|no|\u2026|:)|x|[:|]|\U0001f600|!"),
        ("\u4e2d\u6587\u3002\u00a0na\u00efve", "\u4e2d\u6587|\u3002|na\u00efve"),
    ],
)
def test_the_word_rule_splits_as_it_says(text, words):
    assert "|".join(split_words(text)) == words


@needs_loops
@given(texts)
@settings(max_examples=400)
def test_the_kernel_splits_as_the_rule_says(documents):
    batch = Batch.of([text.encode() for text in documents])

    split = split_batch(batch)

    words, ends = np.frombuffer(split[0], "<u8,<u4,<u4"), np.frombuffer(split[1], "<i8")

    found = []
    for text, rows in zip(
        batch.texts, np.split(words, ends[:-1]) if documents else [], strict=True
    ):
        sizes = rows["f2"] & 0x7FFFFFFF
        found.append(
            [
                text[a : a + n].decode()
                for a, n in zip(rows["f1"].tolist(), sizes.tolist(), strict=True)
            ]
        )
        hashes = dict(zip(found[-1], rows["f0"].tolist(), strict=True))
        assert [hashes[word] for word in found[-1]] == rows["f0"].tolist()
    assert found == [split_words(text) for text in documents]


@needs_loops
@pytest.mark.parametrize(
    ("name", "thresholds"),
    [
        ("gopher_quality", {"min_words": 3, "min_stop_words": 1}),
        ("gopher_repetition", {"max_top_ngrams": [[2, 0.6]], "max_repeated_ngrams": [[12, 0]]}),
        ("gopher_repetition", {"max_top_ngrams": [[6, 0.5]], "max_repeated_ngrams": [[2, 0.3]]}),
        ("c4", {"min_sentences": 1}),
        ("c4", {"lines_end_sentences": False, "remove_citations": False, "max_word_length": 9}),
        ("fineweb", {"short_line": 9}),
    ],
)  # fmt: skip
@given(texts)
def test_the_kernel_counts_as_plain_python_does(name, thresholds, documents):
    rule = load_filter(name, thresholds)

    found = verdict_of(rule, documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", None)
        expected = verdict_of(rule, documents)

    np.testing.assert_equal(found, expected)  # values may be NaN


@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_those_of_datatrove(name):
    cases = decisions()

    reasons, _, changed, _ = verdict_of(
        rule := load_filter(name, {}), [case["text"] for case in cases]
    )

    why = dict(zip(rule.reasons, THEIRS[name].split(), strict=True))
    found = [why[rule.reasons[code - 1]] if code else None for code in reasons]
    assert found == [case[name] and case[name].removeprefix("gopher_") for case in cases]
    if name == "c4":
        expected = {
            n: case["c4_text"] for n, case in enumerate(cases) if case["c4_text"] is not None
        }
        assert {n: text.decode() for n, text in changed.items()} == expected
    never = set(THEIRS[name].split()) - set(found)  # a table of small documents has none of these
    assert never <= {"long_doc", "empty"}


def test_what_the_installed_datatrove_decides_is_in_the_table():
    """Where the table is from: it may be run with another datatrove."""
    filters = pytest.importorskip("datatrove.pipeline.filters", reason="datatrove is not installed")
    pytest.importorskip(
        "spacy", reason="spacy, which datatrove splits words with, is not installed"
    )
    from datatrove.data import Document
    from datatrove.pipeline.filters.base_filter import get_filter_result

    made = {
        "gopher_quality": filters.GopherQualityFilter(),
        "gopher_repetition": filters.GopherRepetitionFilter(),
        "c4": filters.C4QualityFilter(),
        "fineweb": filters.FineWebQualityFilter(),
    }
    for case in decisions():
        for name, rule in made.items():
            document = Document(text=case["text"], id="")
            _, why = get_filter_result(rule.filter(document))
            assert why == case[name]
            if name == "c4":
                changed = why is None and document.text != case["text"]
                assert case["c4_text"] == (document.text if changed else None)


def test_too_many_words_are_too_many():
    rule = GopherQuality(max_words=100)
    reasons, values, *_ = verdict_of(rule, ["the word that is of it " * 20])

    assert (rule.reasons[reasons[0] - 1], values[0]) == ("many words", 120)


def test_a_document_is_judged_alone():
    documents = [case["text"] for case in decisions()]
    for name in NAMES:
        rule = load_filter(name, {})
        together = verdict_of(rule, documents)[:2]
        for number, text in enumerate(documents):
            alone = verdict_of(rule, [text])
            np.testing.assert_equal([part[number] for part in together], [alone[0][0], alone[1][0]])


@pytest.mark.parametrize("pairs", [[[1, 0.2]], [[2]], [["2", 0.2]], [2, 0.2], [[2000, 0.1]]])
def test_ngrams_that_cannot_be_meant_are_refused(pairs):
    with pytest.raises(ValueError, match=r"max_top_ngrams of the filter gopher_repetition has"):
        load_filter("gopher_repetition", {"max_top_ngrams": pairs})


def test_without_ngrams_only_lines_count():
    rule = GopherRepetition(max_top_ngrams=(), max_repeated_ngrams=())

    assert verdict_of(rule, ["ha " * 50])[0] == [0]


def test_filters_in_a_row_leave_what_a_plain_loop_leaves(tmp_path):
    cases = decisions()
    lines = [json.dumps({"text": case["text"]}) for case in cases]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))

    details = Details(filter=",".join(NAMES))
    tokenmill.prepare(
        [tmp_path / "in.jsonl"],
        tmp_path / "out",
        tokenizer="bytes",
        val_fraction=0,
        details=details,
    )

    kept, why = [], {}
    for text in (case["text"] for case in cases):
        for name in NAMES:
            rule = load_filter(name, {})
            reasons, _, changed, _ = verdict_of(rule, [text])
            if reasons[0]:
                reason = f"{name}: {rule.reasons[reasons[0] - 1]}"
                why[reason] = why.get(reason, 0) + 1
                break
            text = changed[0].decode() if changed else text
        else:
            kept.append(text.encode())
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_text())
    data = tokenmill.open(tmp_path / "out", split=None)
    ranges = map(data.document_range, range(data.num_documents))
    texts_of = sorted(data.tokenizer.decode(data.tokens(a, b - 1)) for a, b in ranges)
    assert manifest["settings"]["filter_config"]["c4"]["min_sentences"] == 5
    assert kept
    assert sum(why.values()) + len(kept) == len(cases)
    assert manifest["accounts"]["dropped"] == why
    assert manifest["accounts"]["documents_written"] == len(kept)
    assert texts_of == sorted(kept)
