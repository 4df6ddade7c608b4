"""The funnel of the report says what the accounts say, and `show --removed` what was left out."""

import json

import pytest
from click.testing import CliRunner
from flat import prepare
from pages.read import Read

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.pages.funnel import funnel, steps
from tokenmill.pages.report import report

TEXTS = [f"a page with number {n} " * (n % 4 + 1) for n in range(100)] + ["a page of its own " * 3]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("funnel")
    rows = [json.dumps({"text": text}) for text in [*TEXTS, TEXTS[-1]]]
    (folder / "in.jsonl").write_text("\n".join(rows))
    few = {"length": {"min_characters": 30}}
    settings = {"filter": "length", "filter_config": few, "tokenizer": "bytes"}
    prepare(folder / "in.jsonl", folder / "out", dedup="documents", **settings)
    return folder


def test_the_funnel_has_documents_and_tokens_after_each_rule(filtered):
    accounts = tokenmill.inspect(filtered / "out").made.accounts
    long = [text for text in TEXTS if len(text) >= 30]

    found = list(steps(accounts))

    read, length, written = found
    assert [step for step, _, _ in found] == ["read", "length", "written"]
    assert [documents for _, documents, _ in found] == [102, len(long) + 1, len(long)]
    assert written[2] == sum(len(text) + 1 for text in long) == accounts["tokens_written"]
    assert length[2] == written[2] + len(TEXTS[-1]) + 1
    assert read[2] == pytest.approx(sum(map(len, [*TEXTS, TEXTS[-1]])), rel=0.02)
    text = Read(report(str(filtered / "out"))).text
    assert f"{len(long):,} documents" in text
    assert "length: too short" in text


def test_a_dataset_without_rules_has_no_funnel():
    assert funnel({"documents_in": 3, "dropped": {}}) is None


def test_what_was_removed_is_printed(filtered):
    def show(*words):
        return CliRunner().invoke(command, ["show", "--removed", str(filtered / "out"), *words])

    here = show("--inputs", str(filtered), "--count", "1")
    elsewhere = show("--count", "1")
    as_json = show("--inputs", str(filtered), "--json", "--why", "duplicate")

    assert here.output == f"--- in.jsonl, document 0: length: too short (21)\n{TEXTS[0]}\n"
    assert "name the right one: --inputs DIR" in elsewhere.output
    (found,) = json.loads(as_json.output)
    assert (found["document"], found["why"], found["text"]) == (101, "duplicate", TEXTS[-1])
    assert "did you mean 'length'" in str(show("--why", "lenght").exception)


def test_where_nothing_was_left_out_that_is_said(tmp_path):
    (tmp_path / "a.txt").write_text("long enough to stay, in any case")
    out = str(tmp_path / "out")
    at_least = {"length": {"min_characters": 3}}
    prepare(tmp_path / "a.txt", out, tokenizer="bytes", filter="length", filter_config=at_least)

    shown = CliRunner().invoke(command, ["show", "--removed", out])

    assert (shown.exit_code, shown.output) == (0, "no document was left out\n")
