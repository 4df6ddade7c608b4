"""Rules say of each document what a plain version of them says, whatever is in the batch."""

import ipaddress
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.errors import MismatchError, PrepareError
from tokenmill.text.filters.code import Code
from tokenmill.text.filters.filter_config import checked_filters
from tokenmill.text.filters.length import Length
from tokenmill.text.filters.map_function import MapError, MapRule, name_of
from tokenmill.text.filters.mapped import Mapped
from tokenmill.text.filters.mask import EMAIL, IPV4, IPV6, Mask
from tokenmill.text.filters.rule import (
    NONE_REMOVED,
    REMOVED,
    Batch,
    Removed,
    Rule,
    Verdict,
    load_filter,
)
from tokenmill.text.filters.rule_chain import RuleChain
from tokenmill.text.reading.chunks import Chunk
from tokenmill.text.reading.kept_facts import KeptFacts

texts = st.lists(st.text("ab \n\u00e9\u4e2d.@1", max_size=30), max_size=8)


@given(texts)
def test_a_batch_is_its_texts(some):
    data = [text.encode() for text in some]
    batch = Batch.of(data)

    assert (len(batch), batch.texts, batch.strings) == (len(some), data, some)
    assert batch.num_characters.tolist() == [len(text) for text in some]


class Upper(Rule):
    """Changes texts with an a, and counts them."""

    name = "upper"

    def apply(self, batch):
        changed = {n: t.replace(b"a", b"A") for n, t in enumerate(batch.texts) if b"a" in t}
        counts = np.array([t.count(b"a") for t in batch.texts], np.int64)
        zeros = np.zeros(len(batch))
        return Verdict(zeros.astype(np.uint16), zeros, changed, {"a": counts})


@given(texts, st.integers(0, 20), st.integers(0, 30))
def test_rules_in_a_row_do_what_they_do_to_each_document_alone(some, least, most):
    chain = RuleChain([Length(2), Upper(), Length(least, most)])
    chunk = Chunk([text.encode() for text in some], numbers=np.arange(len(some), dtype=np.uint32))

    out = chain.apply(chunk, {})

    expected, why, letters = [], {}, 0
    for number, text in enumerate(some):
        if len(text) < 2:
            why[number] = ("length: too short", len(text))
            continue
        letters += text.count("a")
        if least <= len(text) <= most:
            expected.append((number, text.replace("a", "A")))
        else:
            reason = "too short" if len(text) < least else "too long"
            why[number] = (f"length: {reason}", len(text))
    assert list(zip(out.numbers.tolist(), (t.decode() for t in out.texts), strict=True)) == expected
    rows = out.removed.rows.tolist() if out.removed else []
    assert {r[0]: (out.removed.reasons[r[1]], r[2]) for r in rows} == why
    assert out.changed.get("upper: a", 0) == letters
    assert sum(out.dropped.values()) == len(why)
    assert out.left["read"][:2] == (len(some), sum(len(text.encode()) for text in some))


def test_reasons_of_several_rules_are_joined():
    def removed(number, *reasons):
        row = np.array([(number, len(reasons) - 1, np.nan, -1, 0)], REMOVED)
        return Removed(row, reasons)

    together = NONE_REMOVED + removed(1, "a", "b") + removed(2, "c") + removed(3, "x", "b")

    assert [together.reasons[code] for code in together.rows["reason"]] == ["b", "c", "b"]
    assert together.counts() == {"b": 2, "c": 1}


def test_new_facts_are_those_of_their_documents():
    parts = [([3, 4], ["a", "b"]), ([9], ["c"]), ([11, 12], ["d", "e"])]
    batches = [KeptFacts.at(rows, pa.record_batch({"url": urls})) for rows, urls in parts]
    kept = batches[0] + batches[1] + batches[2]

    found = kept.with_values({"score": [1, 2, 3, 4, None]}, "map")

    assert pa.Table.from_batches(found.batches).to_pydict() == {
        "source": [0] * 5,
        "row": [3, 4, 9, 11, 12],
        "url": ["a", "b", "c", "d", "e"],
        "score": [1, 2, 3, 4, None],
    }
    with pytest.raises(PrepareError, match="'url'"):
        kept.with_values({"url": [""] * 5}, "map")


@pytest.mark.parametrize("name", ["gopher_quality", "gopher_repetition", "c4", "fineweb"])
def test_documents_that_were_dropped_change_nothing_for_others(name):
    texts = [f"This is sentence {n}. ".encode() * 6 for n in range(9)]
    left, others = Batch.of(texts), Batch.of(texts)
    left.is_left[::2] = 0
    rule = load_filter(name, {})

    found, expected = rule.apply(left), rule.apply(others)

    assert np.array_equal(found.reasons[1::2], expected.reasons[1::2])
    assert np.array_equal(found.values[1::2], expected.values[1::2], equal_nan=True)
    assert {n: found.texts.get(n) for n in range(1, 9, 2)} == {
        n: expected.texts.get(n) for n in range(1, 9, 2)
    }


@pytest.mark.parametrize(
    ("names", "config", "said"),
    [
        ("lenght", None, "did you mean 'length'"),
        ("length,length", None, "named twice"),
        (None, {"length": {}}, "without filter"),
        ("length", {"c5": {}}, "filter_config"),
        ("length", {"length": {"min_character": 3}}, "did you mean 'min_characters'"),
        ("length", {"length": {"min_characters": "3"}}, "such as 200"),
        ("length", '{"length": ', "not JSON"),
        ("length", "no/such/file.json", "cannot read"),
        ("length", '{"length": 3}', "thresholds by filter"),
    ],
)
def test_filters_and_thresholds_are_checked(names, config, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        checked_filters(names, config)


def test_all_thresholds_are_stated_however_they_are_given(tmp_path):
    path = tmp_path / "thresholds.json"
    path.write_text('{"length": {"max_characters": 9}}')

    for config in (str(path), path.read_text(), {"length": {"max_characters": 9}}):
        found = checked_filters("length", config)
        assert found == {"length": {"min_characters": 200, "max_characters": 9}}


def mapped(function, *some, **fields):
    batch = Batch.of([text.encode() for text in some], fields)
    return MapRule(function, "m:f").apply(batch)


def test_a_function_keeps_changes_and_drops():
    same, changed, dropped = "caf\u00e9", "b", "c"

    verdict = mapped(
        lambda documents: Mapped(
            [documents.texts[0], "B" + documents.fields["path"][1], None],
            reasons=[None, None, "not wanted"],
            values=[0.1, 0.2, 0.3],
        ),
        *(same, changed, dropped),
        path=["x", "y", "z"],
    )

    assert verdict.texts == {1: b"By"}
    assert [code and verdict.names[code - 1] for code in verdict.reasons] == [0, 0, "not wanted"]
    assert verdict.values.tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("function", "position", "said"),
    [
        (lambda d: [t[4] for t in d.texts], 1, "IndexError"),
        (lambda d: d.texts[:1], None, "returned 1 texts for 3 documents"),
        (lambda d: [1, 2, 3], 0, "int that is not text"),
        (lambda d: "abc", None, "returned 3 texts"),
        (lambda d: Mapped(d.texts, values=[1.0]), None, "returned 1 values"),
        (lambda d: ["\ud800"] * 3, 0, "not text"),
    ],
)
def test_a_function_that_fails_is_named_with_its_document(function, position, said):
    with pytest.raises(MapError, match=said) as caught:
        mapped(function, "alpha", "b", "gamma")

    assert caught.value.position == position


def test_a_function_must_say_the_same_of_a_document_alone():
    calls = []
    rule = MapRule(lambda d: [str(len(d.texts))] * len(d.texts), "m:f")
    counting = MapRule(lambda d: [calls.append(t) or str(len(calls)) for t in d.texts], "m:f")

    for impure in (rule, counting):
        with pytest.raises(MapError, match="not pure"):
            impure.check(Batch.of([b"a", b"b"]))


def test_a_function_is_named_with_the_hash_of_its_file(tmp_path, monkeypatch):
    path = tmp_path / "one_rule.py"
    path.write_text("def f(documents):\n    return documents.texts\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    name = name_of("one_rule:f")

    import one_rule  # the file that was just written

    assert name_of(one_rule.f) == name == name_of(name)
    assert MapRule.load(name, ()).function is one_rule.f
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(MismatchError, match="was changed"):
        MapRule.load(name, ())


@pytest.mark.parametrize("bad", ["nowhere", "json:", "json:nothing", "no_such_module:f", ":f"])
def test_names_of_no_function_are_refused(bad):
    with pytest.raises(ValueError, match="map is"):
        name_of(bad)


def test_functions_that_workers_cannot_import_are_refused():
    with pytest.raises(ValueError, match="cannot import it"):
        name_of(lambda documents: documents.texts)


def masked(text, *kinds):
    batch = Batch.of([b"before", text.encode(), b"after"])
    verdict = Mask(kinds).apply(batch)
    assert set(verdict.texts) <= {1}
    counts = {what: numbers.tolist() for what, numbers in verdict.counts.items()}
    return verdict.texts.get(1, text.encode()).decode(), counts


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("mail ann.lee+x@mail.example.co.uk now", "mail {e} now"),
        ("<a@b.de>,c_d@e-f.io.", "<{e}>,{e}."),
        ("no@tld, @handle, a@b, x@.com, twitter.com/@x", None),
        ("at 8.8.8.8, (1.2.3.44) and 93.184.216.34:80", "at {four}, ({four}) and {four}:80"),
        ("127.0.0.1 10.0.0.1 192.168.1.1 172.31.255.1 224.0.0.1 0.0.0.0", None),
        ("1.2.3 and 1.2.3.4.5 and 1.2.3.400 and v1.2.3.4 and 12.1234.1.1", None),
        ("2a00:1450:4001:81b::200e or 2001:4860:4860:0:0:0:0:8888", "{six} or {six}"),
        ("2021:10:11 12:30 and fe80::1 and std::vector", None),
        ("x@1.2.3.4", "x@{four}"),
    ],
)
def test_addresses_are_masked(text, left):
    found, counts = masked(text, "email", "ip")

    names = {"e": EMAIL.decode(), "four": IPV4.decode(), "six": IPV6.decode()}
    assert found == (text if left is None else left.format(**names))
    expected = {"e-mail addresses": 0, "IP addresses": 0}
    if left is not None:
        expected = {"e-mail addresses": left.count("{e}"), "IP addresses": left.count("{four}")}
        expected["IP addresses"] += left.count("{six}")
    assert {what: numbers[1] for what, numbers in counts.items()} == expected
    assert not any(numbers[0] or numbers[2] for numbers in counts.values())


def test_what_is_masked_is_public_by_the_registry_of_python():
    rng = np.random.default_rng(0)
    for numbers in rng.integers(0, 256, (3000, 4)).tolist():
        address = ipaddress.IPv4Address(".".join(map(str, numbers)))
        if address in ipaddress.IPv4Network("192.0.0.0/24"):
            continue  # some of it is, by the release of Python
        is_masked = masked(f"at {address} ", "ip")[0] != f"at {address} "
        assert is_masked == (address.is_global and not address.is_multicast), address


def test_code_is_chosen_by_path_licence_and_what_it_says():
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# A\n", "b"]},
            {"cell_type": "code", "source": "x = 1", "outputs": [{"data": "A" * 100}]},
            {"cell_type": "raw", "source": "left out"},
        ]
    }
    documents = {
        "a.py": ("x = 1", "MIT", None),
        "b.txt": ("x", "mit", "kind of file"),
        "c.py": ("x", "gpl-3.0", "licence"),
        "d.py": ("x", None, "licence"),
        "e_pb2.py": ("x", "mit", "generated"),
        "f.py": ("// Code generated by protoc-gen-go. DO NOT EDIT.\n", "mit", "generated"),
        "g.py": ("x\n" * 2000 + "# @generated", "mit", None),
        "h.ipynb": (json.dumps(notebook), "mit", None),
        "i.ipynb": ("{}", "mit", "notebook"),
    }
    rule = Code(suffixes=(".py", ".ipynb"), licences=("mit",))
    batch = Batch.of(
        [text.encode() for text, _, _ in documents.values()],
        {"path": list(documents), "license": [licence for _, licence, _ in documents.values()]},
    )

    verdict = rule.apply(batch)

    found = [rule.reasons[code - 1] if code else None for code in verdict.reasons]
    assert found == [why for _, _, why in documents.values()]
    assert verdict.texts == {7: b"# A\nb\n\nx = 1"}
    with pytest.raises(PrepareError, match="needs the field 'path'"):
        rule.apply(Batch.of([b"x"]))
