"""Settings are written down once: the dataclass, what functions take, and what flags say agree."""

import ast
import inspect
import itertools
import re
from dataclasses import fields
from typing import get_type_hints

import pytest

import tokenmill
from tokenmill.preparation import Chat, Details, Run, jobs
from tokenmill.preparation.estimate import estimate
from tokenmill.preparation.planning import settings
from tokenmill.preparation.planning.settings import Settings, SettingsKeywords


def test_the_keywords_for_type_checkers_are_the_fields():
    hints = get_type_hints(Settings)

    apart = {field.name for options in (Details, Chat) for field in fields(options)} | {"chat"}
    shown = {name: hint for name, hint in hints.items() if name not in apart}
    assert get_type_hints(SettingsKeywords) == shown


def test_every_setting_has_a_docstring_to_be_the_help_of_its_flag():
    source = ast.parse(inspect.getsource(settings))
    body = next(n for n in source.body if isinstance(n, ast.ClassDef) and n.name == "Settings").body
    described = {
        field.target.id
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }

    assert described == {field.name for field in fields(Settings)}


@pytest.mark.parametrize("function", [tokenmill.prepare, estimate, jobs.plan])
def test_signatures_show_every_setting_with_its_default_or_have_it_in_details(function):
    """Or in `chat`, which is None where rows are no conversations."""
    shown = {n: p.default for n, p in inspect.signature(function).parameters.items()}
    details = {field.name for options in (Details, Chat) for field in fields(options)}

    assert shown["details"] == Details()
    assert shown.pop("chat") is None
    assert not details & shown.keys()
    assert {f.name for f in fields(Settings)} >= details
    for field in fields(Settings):
        assert field.name in {*details, "chat"} or shown[field.name] == field.default


def test_prepare_has_at_most_twenty_keywords():
    parameters = inspect.signature(tokenmill.prepare).parameters.values()
    assert len([p for p in parameters if p.kind is p.KEYWORD_ONLY]) <= 20


@pytest.mark.parametrize(
    ("name", "how"), [("max_ram", "run=Run(max_ram=...)"), ("long_line", "details=Details(long")]
)
def test_a_field_given_as_a_keyword_is_shown_its_object(name, how, tmp_path):
    with pytest.raises(TypeError, match=re.escape(f"no argument {name!r}; give it as {how}")):
        tokenmill.prepare("a.txt", tmp_path / "out", **{name: 1 << 30})


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (tokenmill.retokenize, {"run": Run(engine="ray")}),
        (tokenmill.retokenize, {"details": Details(document_is="line")}),
        (tokenmill.train_tokenizer, {"run": Run(work_dir="w")}),
        (tokenmill.train_tokenizer, {"details": Details(token_pattern="gpt2")}),
        (jobs.plan, {"run": Run(ray_address="auto")}),
    ],
)
def test_a_field_that_a_function_does_not_use_is_refused(function, options, tmp_path):
    with pytest.raises(ValueError, match=r"does not use \w+ of (Run|Details); leave it out"):
        function("a.txt", tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_what_is_added_keeps_the_details_of_the_dataset_where_none_are_given(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("three\nfour\n")
    by_line = Details(document_is="line")
    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", details=by_line)

    added = tokenmill.prepare(
        tmp_path / "b.txt", tmp_path / "out", append=True, details=Details(dedup_min_chars=3)
    )

    assert added.documents_written == 4


@pytest.mark.parametrize("function", [tokenmill.prepare, estimate, jobs.plan])
def test_a_mistyped_setting_is_named_with_the_one_that_was_meant(function, tmp_path):
    with pytest.raises(TypeError, match="has no argument 'dedupe'; did you mean 'dedup'"):
        function(["a.txt"], *([] if function is estimate else [tmp_path]), dedupe="none")


@pytest.mark.parametrize(
    "wrong",
    [
        {"document_is": "word"},
        {"on_bad_input": "ignore"},
        {"dedup": "words"},
        {"dtype": "int8"},
        {"separator": ""},
        {"separator": "---", "document_is": "line"},
        {"text_field": ""},
        {"long_line": 0},
        {"val_fraction": 1.0},
        {"tokens_per_shard": 0},
        {"dedup_min_chars": -1},
    ],
)
def test_a_value_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)
