"""What is left out of a dataset is what a plain program leaves out, and all of it can be shown."""

import json
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from flat import estimate, plan, prepare
from preparation import runs

import tokenmill
from tokenmill.errors import MismatchError, PrepareError
from tokenmill.look.removed_documents import removed_documents
from tokenmill.preparation import jobs

FUNCTIONS = """
from tokenmill.text.filters.mapped import Mapped

def no_x(documents):
    texts = [None if "x" in text else text.replace("@@", "@") for text in documents.texts]
    reasons = [None if text else "has an x" for text in texts]
    return Mapped(texts, reasons, [text.count("x") for text in documents.texts])

def judges(documents):
    words = [len(text.split()) for text in documents.texts]
    facts = {"words": words, "first": [text[:1] or None for text in documents.texts]}
    return Mapped([text if n > 3 else None for text, n in zip(documents.texts, words)], facts=facts)

def fails(documents):
    return [text if "seven" not in text else 1 / 0 for text in documents.texts]
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module that workers do not find by themselves."""
    folder = tmp_path / "functions"
    folder.mkdir()
    (folder / "my_rules.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("my_rules", None)


def corpus(folder, seed=0, files=3, documents=60):
    """Files of JSON lines; (file, number) -> text, of all documents that are not empty."""
    rng = np.random.default_rng(seed)
    words = ["alpha", "beta", "x", "a@@b.org", "8.8.8.8", "\u00e9t\u00e9 ", "same line\n", "", "\n"]
    texts = {}
    folder.mkdir(exist_ok=True)
    for file in range(files):
        name = f"{seed}-{file}.jsonl"
        chosen = [" ".join(rng.choice(words, rng.integers(0, 14))) for _ in range(documents)]
        lines = [json.dumps({"text": text}) + "\n" for text in chosen]
        (folder / name).write_text("".join(lines))
        texts |= {(name, n): text for n, text in enumerate(filter(None, chosen))}
    return texts


def expected(texts, least=10):
    """(texts that stay, (file, number) -> (why, value)) by a plain program."""
    left, why, seen = [], {}, set()
    for place, text in texts.items():
        if "x" in text:
            why[place] = ("map: has an x", text.count("x"))
            continue
        text = text.replace("@@", "@").replace("a@b.org", "email@example.com")
        text = text.replace("8.8.8.8", "192.0.2.1")
        if len(text) < least:
            why[place] = ("length: too short", len(text))
        elif text in seen:
            why[place] = ("duplicate", None)
        else:
            seen.add(text)
            left.append(text)
    return left, why


def texts_of(folder):
    """All documents of a dataset, as it has them."""
    found = []
    for split in ("train", "val"):
        data = tokenmill.open(folder, split)
        ranges = map(data.document_range, range(data.num_documents))
        found += [data.tokenizer.decode(data.tokens(a, b - 1)).decode() for a, b in ranges]
    return found


SETTINGS = {
    "tokenizer": "bytes",
    "map": "my_rules:no_x",
    "mask": "ip,email",
    "filter": "length",
    "filter_config": {"length": {"min_characters": 10}},
    "dedup": "documents",
    "val_fraction": 0.3,
}


def test_what_is_left_out_is_what_a_plain_program_leaves_out(tmp_path, functions):
    texts = corpus(tmp_path / "in")
    left, why = expected(texts)

    summary = prepare(tmp_path / "in", tmp_path / "out", workers=1, unit_bytes=700, **SETTINGS)

    assert sorted(texts_of(tmp_path / "out")) == sorted(left)
    removed = removed_documents(tmp_path / "out", count=10**6, inputs=tmp_path / "in")
    found = {(each.place.source, each.place.document): (each.why, each.value) for each in removed}
    assert found == why
    assert {(e.place.source, e.place.document): e.place.text.decode() for e in removed} == {
        place: texts[place] for place in why
    }
    accounts = tokenmill.inspect(tmp_path / "out").made.accounts
    dropped = summary.dropped
    assert sum(dropped.values()) + len(left) == summary.documents_in == 180
    assert dropped["map: has an x"] == sum(reason == "map: has an x" for reason, _ in why.values())
    assert accounts["documents_left"]["read"] == len(texts)
    assert accounts["documents_left"]["map"] == len(texts) - dropped["map: has an x"]
    assert accounts["documents_left"]["length"] == len(left) + dropped["duplicate"]
    masked = sum(text.count("8.8.8.8") for text in texts.values() if "x" not in text)
    assert accounts["changed"]["mask: IP addresses"] == masked


@pytest.mark.parametrize("dedup", ["documents", "lines"])
def test_units_workers_and_jobs_make_the_same_bytes(tmp_path, functions, dedup):
    corpus(tmp_path / "in")
    settings = {**SETTINGS, "dedup": dedup, "clean": True}

    def made(name, **how):
        prepare(tmp_path / "in", tmp_path / name, **settings, **how)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        return {path.relative_to(tmp_path / name): path.read_bytes() for path in files}

    whole = made("whole", workers=1)
    assert any(path.name.startswith("removed-") for path in whole)
    assert made("small", workers=2, unit_bytes=999) == whole
    plan(tmp_path / "in", tmp_path / "jobs", unit_bytes=3000, **settings)
    jobs.finish(tmp_path / "jobs", workers=1)
    files = {path.relative_to(tmp_path / "jobs") for path in (tmp_path / "jobs").rglob("*.*")}
    assert {p for p in files if p.suffix != ".preparation"} == whole.keys()
    for path, data in whole.items():
        assert (tmp_path / "jobs" / path).read_bytes() == data


def test_a_killed_run_ends_with_the_same_bytes(tmp_path, functions):
    corpus(tmp_path / "in")
    shared = {"inputs": [tmp_path / "in"], "workers": 1, "unit_bytes": 700, "tokenizer": "bytes"}
    few = json.dumps({"length": {"min_characters": 10}})
    rules = {"filter": "length", "filter_config": few, "mask": "email", "dedup": "lines"}
    settings = {**rules, **shared}
    prepare(**settings, out_dir=tmp_path / "whole")
    for at in ("lines 4", "encode 4"):
        process = runs.start_and_hold({**settings, "out_dir": tmp_path / "killed"}, at=at)
        process.kill()
        process.communicate()
        (tmp_path / "killed" / ".preparation" / "lock").unlink(missing_ok=True)

    prepare(**settings, out_dir=tmp_path / "killed")

    for path in (tmp_path / "whole").rglob("*.*"):
        assert (tmp_path / "killed" / path.relative_to(tmp_path / "whole")).read_bytes() == (
            path.read_bytes()
        )


def test_what_is_added_is_filtered_too_and_its_places_are_its_own(tmp_path, functions):
    first = corpus(tmp_path / "in")
    second = corpus(tmp_path / "in2", seed=1)
    left, why = expected({**first, **second})
    prepare(tmp_path / "in", tmp_path / "out", workers=1, **SETTINGS)

    prepare(tmp_path / "in2", tmp_path / "out", workers=1, unit_bytes=900, append=True)

    assert sorted(texts_of(tmp_path / "out")) == sorted(left)
    shutil.copytree(tmp_path / "in2", tmp_path / "in", dirs_exist_ok=True)
    removed = removed_documents(tmp_path / "out", count=10**6, inputs=tmp_path / "in")
    assert {(e.place.source, e.place.document): e.why for e in removed} == {
        place: reason for place, (reason, _) in why.items()
    }
    assert len(list((tmp_path / "out").glob("removed-*"))) == 1
    assert not tokenmill.verify(tmp_path / "out", full=True).damaged


def test_small_files_in_one_unit_keep_their_places_and_paths(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(40):
        text = "" if number % 7 == 0 else f"file {number} " * (number % 5)
        (tmp_path / "in" / f"{number:02}.{'md' if number % 3 else 'py'}").write_text(text)
    settings = {
        "tokenizer": "bytes",
        "filter": "length,code",
        "filter_config": {"length": {"min_characters": 20}, "code": {"suffixes": [".py"]}},
    }

    prepare(tmp_path / "in", tmp_path / "out", **settings)

    removed = removed_documents(tmp_path / "out", count=100, inputs=tmp_path / "in")
    found = {each.place.source: each.why for each in removed}
    for path in (tmp_path / "in").iterdir():
        is_short = 0 < path.stat().st_size < 20
        why = "length: too short" if is_short else "code: kind of file"
        stays = path.suffix == ".py" and not is_short
        assert found.get(path.name) == (None if stays or not path.stat().st_size else why)


def test_an_error_of_a_function_names_document_and_file(tmp_path, functions):
    lines = [json.dumps({"text": f"document {n}"}) for n in ("one", "two", "seven", "eight")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    with pytest.raises(
        PrepareError, match=r"a\.jsonl, document 3: .*ZeroDivisionError.*\"document"
    ):
        prepare(tmp_path / "a.jsonl", tmp_path / "out", map="my_rules:fails")


def test_facts_of_a_function_are_kept_with_its_documents(tmp_path, functions):
    texts = [text for text in corpus(tmp_path / "in").values() if len(text.split()) > 3]
    settings = {"map": "my_rules:judges", "tokenizer": "bytes", "val_fraction": 0.0}
    with pytest.raises(PrepareError, match="facts=True"):
        prepare(tmp_path / "in", tmp_path / "none", workers=1, **settings)

    for name, how in (("out", {"facts": True}), ("both", {"keep": "all=text", "workers": 2})):
        prepare(tmp_path / "in", tmp_path / name, unit_bytes=900, **how, **settings)

        found = pq.read_table(tmp_path / name / "train" / "documents.parquet")
        assert found["words"].to_pylist() == [len(text.split()) for text in texts]
        assert found["first"].to_pylist() == [text[0] for text in texts]
    assert found["all"].to_pylist() == texts
    corpus(tmp_path / "in2", seed=1)
    prepare(tmp_path / "in2", tmp_path / "out", append=True)
    assert tokenmill.open(tmp_path / "out", where="words > 9").num_documents > 0


def test_a_changed_function_is_another_preparation(tmp_path, functions):
    corpus(tmp_path / "in")
    prepare(tmp_path / "in", tmp_path / "out", workers=1, **SETTINGS)
    (functions / "my_rules.py").write_text(FUNCTIONS + "# changed\n")

    with pytest.raises(MismatchError, match="map"):
        prepare(tmp_path / "in", tmp_path / "out", workers=1, **SETTINGS)


def test_an_estimate_says_what_each_rule_alone_would_do(tmp_path, functions):
    texts = corpus(tmp_path / "in").values()

    found = estimate(tmp_path / "in", **SETTINGS)

    rules = {rule.name: rule for rule in found.rules}
    assert list(rules) == ["map", "mask", "length"]
    assert rules["map"].dropped == {"has an x": sum("x" in text for text in texts)}
    changed = [t.replace("@@", "@") if "x" not in t else t for t in texts]
    assert rules["map"].changed == sum("@@" in text and "x" not in text for text in texts)
    assert rules["mask"].changed == sum("a@b.org" in t or "8.8.8.8" in t for t in changed)
    assert [len(rule.examples) for rule in found.rules] == [5, 5, 5]
    assert "length      alone drops" in found.to_text()
    assert "near-duplicates" not in found.to_text()
    near = estimate(tmp_path / "in", tokenizer="bytes", dedup="near")
    assert "near-duplicates are found when all documents were read: not est" in near.to_text()


def test_a_dataset_without_rules_has_no_record(tmp_path):
    corpus(tmp_path / "in")
    prepare(tmp_path / "in", tmp_path / "out", tokenizer="bytes")

    with pytest.raises(ValueError, match="no record of removed documents"):
        removed_documents(tmp_path / "out")
