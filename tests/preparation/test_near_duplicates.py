"""`--dedup near`: what goes is similar to what stays, and nothing else goes."""

import json
import os
import random
import signal
from functools import cache

import pytest
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.runs import run, start_and_hold

import tokenmill
from tokenmill.errors import PrepareError


@cache
def runs_of(text, width=5):
    words = text.lower().replace(".", " ").split()
    size = min(width, len(words))
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def similarity(one, other):
    shared = len(runs_of(one) & runs_of(other))
    return shared / (len(runs_of(one)) + len(runs_of(other)) - shared)


def edited(words, chosen):
    words = list(words)
    for _ in range(chosen.choice((0, 1, 1, 2, 4))):
        words[chosen.randrange(len(words))] = f"new{chosen.random()}"
    return words


def make_texts(number, seed=0):
    """Documents of 30 to 200 words, half of them copies with edits, some of these exact."""
    chosen = random.Random(seed)
    known = [f"word{at}" for at in range(3000)]
    texts = []
    for _ in range(number):
        if texts and chosen.random() < 0.4:
            words = edited(chosen.choice(texts), chosen)
        else:
            words = chosen.choices(known, k=chosen.randrange(30, 200))
        texts.append(words)
    return [" ".join(words) for words in texts]


def write(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def left_in(out):
    data = tokenmill.open(out, "all")
    documents = map(data.document, range(data.num_documents))
    return {data.tokenizer.decode(ids[:-1]).decode() for ids in documents}


def record_of(out):
    (path,) = out.glob("removed-*.jsonl")
    header, *lines = map(json.loads, path.read_text().splitlines())
    return header["reasons"], lines


SETTINGS = {"tokenizer": "bytes", "dedup": "near", "val_fraction": 0.0}


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_all_and_only_what_is_similar_to_one_that_stays_goes(tmp_path, keep):
    texts = make_texts(200)
    source = write(tmp_path / "a.jsonl", texts)
    out = tmp_path / "out"

    summary = prepare(source, out, **SETTINGS, near_keep=keep, unit_bytes=9000)

    reasons, lines = record_of(out)
    gone = {line[1] for line in lines}
    near = [line for line in lines if reasons[line[2]] == "near: like another document"]
    assert len(near) > 30
    for _, number, _, value, _, kept in near:
        assert value == pytest.approx(similarity(texts[number], texts[kept]))
        assert value >= 0.8
        assert kept not in gone
        if keep == "longest":
            assert len(texts[kept]) >= len(texts[number])
        else:
            assert kept < number
    stays = [number for number in range(len(texts)) if number not in gone]
    left = [similarity(texts[a], texts[b]) for at, a in enumerate(stays) for b in stays[:at]]
    assert max(left) < 0.8
    assert left_in(out) == {texts[number] for number in stays}
    exact = len(texts) - len(set(texts))
    assert summary.dropped == {"duplicate": exact, "near: like another document": len(near)}


def test_workers_units_and_kills_do_not_matter(tmp_path):
    source = write(tmp_path / "a.jsonl", make_texts(200))
    wanted = {"inputs": source, "tokens_per_shard": 4000, **SETTINGS}
    prepare(out_dir=tmp_path / "one", workers=1, **wanted)
    expected = hashes_of_files(tmp_path / "one")

    for number, options in enumerate(({"workers": 2, "unit_bytes": 7000}, {"unit_bytes": 20_000})):
        prepare(out_dir=tmp_path / str(number), **wanted, **options)
        assert hashes_of_files(tmp_path / str(number)) == expected
    for at in ("near-bands 3", "near-pairs 2", "near-choice 1"):
        out = tmp_path / at
        arguments = {"out_dir": out, "workers": 1, "unit_bytes": 7000, **wanted}
        process = start_and_hold(arguments, at, start_new_session=True)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert run(arguments) == (0, "")
        assert hashes_of_files(out) == expected


def test_what_is_added_is_compared_with_what_is_there(tmp_path):
    texts = make_texts(60)
    first = list(dict.fromkeys(texts))[:10]
    copies = [f"{text} {text} {text} and more" for text in first]
    out = tmp_path / "out"
    settings = SETTINGS | {"near_keep": "longest", "tokens_per_shard": 3000}
    longer = write(tmp_path / "a.jsonl", [f"{text} {text} {text}" for text in first])
    prepare(longer, out, **settings)
    before = left_in(out)

    others = ["quite another text of a few words", "and one more that is like none of the others"]
    prepare(
        write(tmp_path / "b.jsonl", [*copies, *others]), out, append=True, allow_heavy_dedup=True
    )

    assert left_in(out) == before | set(others)
    _, lines = record_of(out)
    added = [line for line in lines if isinstance(line[4], str)]
    assert {line[1] for line in added} == set(range(len(copies)))
    assert all(line[4].startswith("train/shard_") for line in added)


def test_a_source_that_would_lose_most_of_its_documents_stops_the_run(tmp_path):
    chosen = random.Random(0)
    template = chosen.choices([f"word{at}" for at in range(999)], k=100)
    source = write(tmp_path / "a.jsonl", [" ".join([*template, str(at)]) for at in range(30)])
    out = tmp_path / "out"

    with pytest.raises(PrepareError, match=r"29 of the 30 documents of a\.jsonl") as caught:
        prepare(source, out, **SETTINGS)
    assert "alike" in caught.value.message
    assert "allow_heavy_dedup" in caught.value.hint
    assert prepare(source, out, **SETTINGS, allow_heavy_dedup=True).documents_written == 1


def test_code_is_compared_with_case_and_punctuation(tmp_path):
    code = "\n".join(f"value_{at} = Call({at}, [x + {at}])" for at in range(30))
    others = ["x = 1 + 2 + 3 + 4 + 5 + 6", "def f(a, b, c): return a * b * c"]
    other = code.replace("[", "(").replace("]", ")").lower()
    source = write(tmp_path / "a.jsonl", [code, other, *others])

    as_text = prepare(source, tmp_path / "text", **SETTINGS)
    as_code = prepare(source, tmp_path / "code", **SETTINGS, near_code=True)

    assert (as_text.documents_written, as_code.documents_written) == (3, 4)


def test_the_rule_is_in_the_manifest_only_where_it_is_used(tmp_path):
    source = write(tmp_path / "a.jsonl", make_texts(20))
    for kind in ("near", "documents"):
        prepare(source, tmp_path / kind, **SETTINGS | {"dedup": kind}, allow_heavy_dedup=True)
    known = [
        json.loads((tmp_path / kind / "dataset_metadata.json").read_text())["settings"]
        for kind in ("near", "documents")
    ]
    assert {name: value for name, value in known[0].items() if name.startswith("near_")} == {
        "near_similarity": 0.8,
        "near_words": 5,
        "near_keep": "first",
        "near_code": False,
    }
    assert not any(name.startswith("near_") for name in known[1])
