"""Promise: rules, near-duplicates and test items find the same where the work is in a bucket."""

import json
import random

import flat
import pytest
from small_corpus import files_of
from stores.servers import objects_of

from tokenmill.stores import objects

ITEM = [f"question{number}" for number in range(16)]


@pytest.fixture
def inputs(tmp_path):
    """Two files of made-up texts, some too short, some nearly the same, some with a test item."""
    chosen = random.Random(0)
    known = ["".join(chosen.choices("abcdefgh", k=6)) for _ in range(500)]
    (tmp_path / "quiz.jsonl").write_text(json.dumps({"question": " ".join(ITEM)}))
    texts = []
    for file in "ab":
        with open(tmp_path / f"{file}.jsonl", "w") as lines:
            for number in range(120):
                words = chosen.choices(known, k=60 if number % 10 else 3)
                if texts and number % 7 == 0:
                    words = chosen.choice(texts).split()
                    words[-1] = "changed"
                if number % 9 == 0:
                    words[1:1] = ITEM
                texts.append(" ".join(words))
                lines.write(json.dumps({"text": texts[-1], "url": f"{file}{number}"}) + "\n")
    return tmp_path


@pytest.mark.parametrize("action", ["drop", "cut", "mark"])
def test_the_bytes_are_those_of_a_folder(inputs, bucket, tmp_path, action):
    settings = {
        "tokenizer": "bytes",
        "dedup": "near",
        "filter": "length",
        "filter_config": {"length": {"min_characters": 50}},
        "mask": "email",
        "decontaminate": str(inputs / "quiz.jsonl"),
        "on_contaminated": action,
        "keep": "url",
        "unit_bytes": 9000,
        "workers": 1,
    }
    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch"}
    for more, file in (({}, "a"), ({"append": True}, "b")):
        local = flat.prepare(inputs / f"{file}.jsonl", tmp_path / "out", **settings, **more)
        flat.prepare(inputs / f"{file}.jsonl", f"{bucket}/data", **where, **settings, **more)

        found, expected = objects_of(f"{bucket}/data"), files_of(tmp_path / "out")
        assert {name: found.get(name) for name in expected} == expected
        # Lists that only the manifest before this one named are still in the store.
        assert all(name.endswith(("jsonl", "parquet")) for name in found.keys() - expected.keys())
        assert local.dropped["near: like another document"] > 5
        assert local.dropped["length: too short"] > 5
    assert objects.list_below(f"{bucket}/work") == []
