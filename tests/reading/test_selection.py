"""A selection serves, bit for bit, the batches of a dataset prepared from its documents alone."""

import json
import os
import pickle
import random

import numpy as np
import pytest
from flat import prepare

import tokenmill
from tokenmill import BatchLoader
from tokenmill.errors import CorruptShardError, FormatError, OrderMismatchError
from tokenmill.reading import selection

NUM_CASES = int(os.environ.get("TOKENMILL_SELECTIONS", "12"))
NUM_DOCUMENTS = 900
WORDS = ["tea", "time", "of day", "\u00e9t\u00e9", "a", "never seen again", "\n\n", "x" * 70]
PREDICATES = [
    "lang = 'en'", "score < 0.1", "score BETWEEN 0.2 AND 0.9 AND lang <> 'de'",
    "n < 400 OR n > 800",
    "url LIKE '%7' OR lang IN ('de', 'fr')", "NOT (lang = 'en' AND score > 0.4)", "lang IS NULL",
    "n = 77", "row > 10", "lang = 'en' AND n >= 300 AND n < 600",
]  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    chosen = random.Random(0)
    return [
        {
            "text": " ".join(chosen.choices(WORDS, k=chosen.choice([1, 3, 20, 120]))),
            "lang": chosen.choice(["en", "en", "de", "fr", None]),
            "score": chosen.random(),
            "url": f"https://example.org/{n}",
            "n": n,
        }
        for n in range(NUM_DOCUMENTS)
    ]


def make(rows, folder, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = {"tokenizer": "bytes", "val_fraction": 0, "workers": 1, **settings}
    prepare(path, folder / "data", **rules)
    return folder / "data"


@pytest.fixture(scope="module")
def whole(rows, tmp_path_factory):
    """The same documents: in one shard, in many, and in many that are compressed."""
    keep = {"keep": "lang,score,url,n"}
    kinds = ({}, {"tokens_per_shard": 9000}, {"tokens_per_shard": 9000, "compress": "zstd"})
    folders = [tmp_path_factory.mktemp("whole") for _ in kinds]
    pairs = zip(folders, kinds, strict=True)
    return [make(rows, folder, **keep, **kind) for folder, kind in pairs]


def same_batches(one, other, chosen, steps=6):
    block_size = chosen.choice([16, 64, 200])
    how = {
        "batch_size": chosen.choice([1, 3, 8]),
        "block_size": block_size,
        "seed": chosen.randrange(100),
        **chosen.choice(
            [
                {"order": "shuffle", "phase": chosen.random() < 0.5},
                {"order": "sequential"},
                {"order": "random"},
                {"order": "blocks"},
                {"rows": "packed"},
                {"rows": "documents", "begin_token": 1},
            ]
        ),
    }
    rank, world_size = chosen.choice([(0, 1), (1, 2)])
    how |= {"rank": rank, "world_size": world_size, "documents": chosen.random() < 0.5}
    loaders = [BatchLoader(data, **how) for data in (one, other)]
    first = chosen.choice([0, 0, 5, 1000])
    for step in range(first, first + steps):
        pair = [loader.batch(step) for loader in loaders]
        for name in ("tokens", "document_ids", "positions", "samples"):
            found = [getattr(batch, name, None) for batch in pair]
            assert np.array_equal(*found), (how, step, name)


def test_batches_are_those_of_the_documents_alone(rows, whole, tmp_path):
    chosen = random.Random(5)
    for case in range(NUM_CASES):
        where = chosen.choice([*PREDICATES, "numbers", "mask"])
        if where == "numbers":
            where = sorted(chosen.sample(range(NUM_DOCUMENTS), chosen.choice([30, 200, 899])))
        elif where == "mask":
            where = [chosen.random() < 0.5 for _ in range(NUM_DOCUMENTS)]
        selected = tokenmill.open(chosen.choice(whole), where=where)
        mine = [rows[n] for n in selected.facts(["n"])["n"].to_pylist()]
        if not isinstance(where, str):
            numbers = where if len(where) < NUM_DOCUMENTS else np.flatnonzero(where)
            assert mine == [rows[n] for n in numbers]
        prepared = tokenmill.open(make(mine, tmp_path / str(case)))
        assert np.array_equal(selected[:], prepared[:])
        assert selected.num_documents == prepared.num_documents
        if len(prepared) > 200:
            same_batches(selected, prepared, chosen)
            parts = sorted(chosen.sample(range(len(prepared)), 2))
            assert np.array_equal(selected.part(*parts)[:], prepared.part(*parts)[:])


def test_a_selection_of_a_selection(rows, whole):
    both = tokenmill.open(whole[1], where="lang = 'en' AND score > 0.3")
    twice = tokenmill.open(whole[1]).select("lang = 'en'").select("score > 0.3")
    assert np.array_equal(both[:], twice[:])
    assert both.facts().drop_columns("document").equals(twice.facts().drop_columns("document"))
    assert [twice.facts_of(i) for i in (0, 5)] == [both.facts_of(i) for i in (0, 5)]
    same_batches(both, twice, random.Random(1))


def test_a_mixture_of_selections_is_one_of_datasets(rows, whole, tmp_path):
    data = tokenmill.open(whole[0])
    parts = {lang: data.select(f"lang = '{lang}'") for lang in ("en", "de")}
    alone = {
        lang: tokenmill.open(make([r for r in rows if r["lang"] == lang], tmp_path / lang))
        for lang in parts
    }
    weights = {"en": 0.3, "de": 0.7}
    loaders = [
        BatchLoader(tokenmill.Mixture(of, weights=weights), batch_size=4, block_size=64, seed=3)
        for of in (parts, alone)
    ]
    for step in (0, 1, 40):
        one, other = (loader.batch(step) for loader in loaders)
        assert np.array_equal(one.tokens, other.tokens)
        assert np.array_equal(one.sources, other.sources)


def test_columns_come_with_their_documents(tmp_path):
    chosen = np.random.default_rng(0)
    documents = [
        {"ids": chosen.integers(1, 90, size), "loss": chosen.random(size) < 0.5, "facts": {"n": n}}
        for n, size in enumerate(chosen.integers(1, 60, 400).tolist())
    ]
    tokenmill.write_tokens(documents, tmp_path / "all", end_of_text_id=0)
    few = [document for document in documents if document["facts"]["n"] % 3]
    tokenmill.write_tokens(few, tmp_path / "few", end_of_text_id=0)
    numbers = [n for n in range(400) if n % 3]
    one = tokenmill.open(tmp_path / "all", where=numbers)
    other = tokenmill.open(tmp_path / "few")
    assert one.columns == other.columns
    for edges in ((5, 900), (0, 1), (70, 70), (0, len(one))):
        assert np.array_equal(one.column("loss", *edges), other.column("loss", *edges))
    for rows_of in ("windows", "packed"):
        loaders = [
            BatchLoader(data, batch_size=4, block_size=50, seed=1, rows=rows_of)
            for data in (one, other)
        ]
        for step in range(5):
            pair = [loader.batch(step) for loader in loaders]
            assert np.array_equal(pair[0].tokens, pair[1].tokens)
            assert np.array_equal(pair[0].columns["loss"], pair[1].columns["loss"])


def test_it_resumes_and_is_part_of_the_fingerprint(whole):
    data = tokenmill.open(whole[0], where="lang = 'en'")
    same = tokenmill.open(whole[0], where=data_numbers(whole[0], "lang = 'en'"))
    other = tokenmill.open(whole[0], where="lang = 'de'")
    assert data.fingerprint == same.fingerprint != other.fingerprint
    loader = BatchLoader(data, batch_size=2, block_size=64, seed=0)
    next(loader)
    state = loader.state_dict()
    expected = next(loader).tokens
    again = BatchLoader(same, batch_size=2, block_size=64, seed=0)
    again.load_state_dict(state)
    assert np.array_equal(next(again).tokens, expected)
    with pytest.raises(OrderMismatchError):
        BatchLoader(other, batch_size=2, block_size=64, seed=0).load_state_dict(state)


def data_numbers(path, where):
    return tokenmill.open(path).facts(["document"], where=where)["document"].to_numpy()


def test_a_larger_budget_contains_a_smaller_one(rows, whole):
    data = tokenmill.open(whole[0])
    before = set()
    for tokens in (2000, 50_000, len(data) - 1, len(data), 1e12):
        found = data.budget(tokens=tokens)
        urls = set(found.facts(["url"])["url"].to_pylist())
        assert before <= urls
        assert found.num_tokens <= tokens
        longest = max(len(data.document(n)) for n in range(NUM_DOCUMENTS))
        assert found.num_tokens > min(tokens, len(data)) - longest
        before = urls
    # By the content alone: wherever a document is, and whatever is around it.
    few = data.select("n >= 450").budget(tokens=20_000).facts(["url", "id"])
    ids = sorted(data.facts(["id"], where="n >= 450")["id"].to_pylist())
    assert sorted(few["id"].to_pylist()) == ids[: len(few)]


def test_splits_stay_splits_in_a_conversion(rows, tmp_path):
    path = make(rows, tmp_path, val_fraction=0.2, keep="lang,n")
    tokenmill.convert(path, tmp_path / "en", to="tokenmill", where="lang = 'en'")
    for split in ("train", "val"):
        selected = tokenmill.open(path, split, where="lang = 'en'")
        written = tokenmill.open(tmp_path / "en", split)
        assert np.array_equal(selected[:], written[:])
        assert (
            selected.facts()
            .drop_columns("document")
            .equals(written.facts().drop_columns("document"))
        )
    every = tokenmill.open(path, "all", where="lang = 'en'")
    assert len(every) == sum(len(tokenmill.open(tmp_path / "en", s)) for s in ("train", "val"))
    assert tokenmill.verify(tmp_path / "en", full=True).damaged == []


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """Selections of any size are kept in a folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(selection, "IN_MEMORY", 0)
    monkeypatch.setattr(selection, "DOCUMENTS_AT_ONCE", 70)
    return tmp_path / "cache" / "tokenmill" / "selections"


def test_it_is_kept_and_checked(whole, cached, monkeypatch):
    first = tokenmill.open(whole[1], where="lang = 'en'")
    (path,) = cached.glob("*.selection")
    inode = path.stat().st_ino
    again = tokenmill.open(whole[1], where="lang = 'en'")
    assert path.stat().st_ino == inode
    assert np.array_equal(first[:], again[:])
    assert np.array_equal(pickle.loads(pickle.dumps(again))[:], first[:])
    tokenmill.open(whole[1], where="lang = 'de'")
    tokenmill.open(whole[0], where="lang = 'en'")
    assert len(list(cached.glob("*.selection"))) == 3
    data = bytearray(path.read_bytes())
    for at in (len(data) - 1, 4096, 9):
        damaged = data.copy()
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CorruptShardError, match=r"selection|changed after"):
            tokenmill.open(whole[1], where="lang = 'en'")
    path.write_bytes(data[:-8])
    with pytest.raises(CorruptShardError, match="not a whole selection"):
        tokenmill.open(whole[1], where="lang = 'en'")


def test_in_blocks_of_documents_it_is_the_same(whole, cached):
    kept = tokenmill.open(whole[0], where="n < 500 AND n > 60 OR lang = 'en'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "IN_MEMORY", 1 << 20)
        held = tokenmill.open(whole[0], where="n < 500 AND n > 60 OR lang = 'en'")
    assert np.array_equal(kept[:], held[:])
    assert kept.fingerprint == held.fingerprint
    assert kept.facts().equals(held.facts())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([True, False], "where has 2 booleans, and the dataset 900 documents"),
        ([5, 900], "document 900 of a dataset of 900 documents"),
        ([-1], "document -1 of a dataset of 900 documents"),
        ([7, 3, 7], "document 7 is named twice"),
        ([0.5], "an array of float64"),
        ("score > 'a'", "at character 9: .*Could not convert string 'a' to DOUBLE"),
    ],
)
def test_a_choice_that_is_wrong_is_named(whole, where, message):
    with pytest.raises(ValueError, match=message):
        tokenmill.open(whole[0], where=where)


def test_what_cannot_be_chosen_from_says_why(whole, rows, tmp_path):
    with pytest.raises(FormatError, match=r"no document of .* is chosen by 'n > 5000'"):
        tokenmill.open(whole[0], where="n > 5000")
    plain = make(rows[:20], tmp_path)
    with pytest.raises(FormatError, match="keeps no facts of its documents"):
        tokenmill.open(plain, where="n > 5")
    assert tokenmill.open(plain, where=[1, 2]).num_documents == 2
    part = tokenmill.open(whole[1]).part(0, 5000)
    with pytest.raises(FormatError, match="is a part of a split here"):
        part.select("n > 5")
    data = tokenmill.from_array(np.arange(1, 50), end_of_text=7)
    with pytest.raises(FormatError, match="with an index of its documents"):
        data.select([0])


def test_a_place_has_the_facts_of_its_document(rows, whole):
    data = tokenmill.open(whole[0], where="lang = 'de'")
    loader = BatchLoader(data, batch_size=2, block_size=64, seed=0)
    place = loader.locate(3, 1, 5)
    row = [r for r in rows if r["lang"] == "de"][place.document]
    assert place.facts["url"] == row["url"]
    assert place.facts["row"] == row["n"] + 1
    assert place.facts["source"] == "rows.jsonl"
