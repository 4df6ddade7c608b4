"""Settings are written down once: the dataclass, what functions take, and what flags say agree."""

import ast
import inspect
import itertools
from dataclasses import fields
from typing import get_type_hints

import pytest

import tokenmill
from tokenmill.preparation import jobs
from tokenmill.preparation.estimate import estimate
from tokenmill.preparation.planning import settings
from tokenmill.preparation.planning.settings import Settings, SettingsKeywords


def test_the_keywords_for_type_checkers_are_the_fields():
    assert get_type_hints(SettingsKeywords) == get_type_hints(Settings)


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
def test_signatures_show_every_setting_with_its_default(function):
    shown = inspect.signature(function).parameters

    assert {f.name: f.default for f in fields(Settings)}.items() <= {
        name: parameter.default for name, parameter in shown.items()
    }.items()


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
