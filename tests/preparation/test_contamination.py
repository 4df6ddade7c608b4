"""`--decontaminate`: documents that hold a test item are dropped, cut or marked."""

import json
import random

import pyarrow.parquet as pq
import pytest
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.test_near_duplicates import left_in, record_of, write

import tokenmill

SETTINGS = {"tokenizer": "bytes", "val_fraction": 0.0}
ITEMS = 12


@pytest.fixture
def files(tmp_path):
    """Texts of 80 words, every fifth with an item of the test set in it; and the test set."""
    chosen = random.Random(0)
    items = [[f"item{number}_{at}" for at in range(6 + 3 * number)] for number in range(ITEMS)]
    lines = [json.dumps({"question": " ".join(item), "answer": "yes"}) for item in items]
    (tmp_path / "quiz.jsonl").write_text("\n".join(lines))
    texts, holds = [], {}
    for number in range(100):
        words = [f"word{chosen.randrange(999)}" for _ in range(80)]
        if number % 5 == 0:
            holds[number] = number // 5 % ITEMS
            words[40:40] = [word.upper() + "," for word in items[holds[number]]]
        texts.append(" ".join(words))
    return write(tmp_path / "a.jsonl", texts), tmp_path / "quiz.jsonl", texts, holds


def test_documents_that_hold_an_item_go_and_the_record_says_which(files, tmp_path):
    source, quiz, texts, holds = files
    out = tmp_path / "out"

    summary = prepare(source, out, decontaminate=str(quiz), **SETTINGS, unit_bytes=5000)

    assert summary.dropped == {"decontaminate: quiz.jsonl": len(holds)}
    assert left_in(out) == {text for number, text in enumerate(texts) if number not in holds}
    _, lines = record_of(out)
    assert {line[1]: line[3] - 1 for line in lines} == holds
    manifest = json.loads((out / "dataset_metadata.json").read_text())
    assert manifest["accounts"]["test_sets"] == {
        "quiz.jsonl": {"items": ITEMS, "too_short": 0, "items_found": ITEMS, "documents": 20}
    }
    assert manifest["settings"]["decontaminate"].startswith("quiz.jsonl@")
    assert manifest["settings"]["decontaminate_words"] == 13


def test_a_passage_is_cut_out_of_its_document(files, tmp_path):
    source, quiz, texts, holds = files
    out = tmp_path / "out"

    prepare(source, out, decontaminate=str(quiz), on_contaminated="cut", **SETTINGS)

    words = [text.split() for text in texts]
    expected = {" ".join(word for word in some if not word.startswith("ITEM")) for some in words}
    assert left_in(out) == expected
    accounts = json.loads((out / "dataset_metadata.json").read_text())["accounts"]
    assert accounts["changed"] == {"decontaminate: passages cut": len(holds)}


def test_marked_documents_stay_with_the_item_as_a_fact(files, tmp_path):
    source, quiz, texts, holds = files
    out = tmp_path / "out"

    prepare(source, out, decontaminate=[str(quiz)], on_contaminated="mark", **SETTINGS)

    assert left_in(out) == set(texts)
    accounts = json.loads((out / "dataset_metadata.json").read_text())["accounts"]
    assert accounts["test_sets"]["quiz.jsonl"]["documents"] == len(holds)
    facts = pq.read_table(out / "train" / "documents.parquet")
    expected = [f"quiz.jsonl:{holds[n] + 1}" if n in holds else None for n in range(len(texts))]
    assert facts["contaminated"].to_pylist() == expected
    clean = tokenmill.open(out, where="contaminated is null")
    assert clean.num_documents == len(texts) - len(holds)


def test_what_is_added_is_marked_too(files, tmp_path):
    _, quiz, texts, holds = files
    options = {"decontaminate": str(quiz), "on_contaminated": "mark", **SETTINGS}
    prepare(write(tmp_path / "b.jsonl", texts[:50]), tmp_path / "out", **options)

    prepare(write(tmp_path / "c.jsonl", texts[50:]), tmp_path / "out", append=True, **options)

    (facts,) = (tmp_path / "out" / "train").glob("documents*.parquet")
    marks = pq.read_table(facts)["contaminated"].to_pylist()
    assert {n for n, mark in enumerate(marks) if mark} == holds.keys()
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_text())
    report = manifest["accounts"]["test_sets"]["quiz.jsonl"]
    assert report == {"items": ITEMS, "too_short": 0, "items_found": 10, "documents": len(holds)}


@pytest.mark.parametrize("mode", ["drop", "cut", "mark"])
def test_units_workers_and_near_duplicates_do_not_matter(files, tmp_path, mode):
    source, quiz, _, _ = files
    runs = ({"unit_bytes": 3000}, {"workers": 2, "unit_bytes": 9000}, {"workers": 1})
    for number, options in enumerate(runs):
        prepare(
            source,
            tmp_path / str(number),
            decontaminate=str(quiz),
            on_contaminated=mode,
            dedup="near",
            **SETTINGS,
            **options,
        )
    found = [hashes_of_files(tmp_path / str(number)) for number in range(len(runs))]
    assert found[0] == found[1] == found[2]


def test_a_changed_test_set_is_another_preparation(files, tmp_path):
    source, quiz, _, _ = files
    out = tmp_path / "out"
    prepare(source, out, decontaminate=str(quiz), **SETTINGS)
    quiz.write_text('{"question": "word1 word2 word3 word4 word5 word6"}\n')

    with pytest.raises(Exception, match="decontaminate"):
        prepare(source, out, decontaminate=str(quiz), **SETTINGS)
