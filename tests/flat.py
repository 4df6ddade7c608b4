"""Preparations with all keywords side by side, as the flags of the commands are.

Tests pass settings around as dictionaries; here the fields of `Run` and `Details` are put into
these.
"""

from dataclasses import fields

import tokenmill
from tokenmill.preparation import Details, Run, jobs
from tokenmill.preparation.estimate import estimate as plain_estimate


def grouped(keywords):
    """The keywords as `tokenmill.prepare` takes them."""
    keywords = dict(keywords)
    for name, kind in {"run": Run, "details": Details}.items():
        if named := [field.name for field in fields(kind) if field.name in keywords]:
            keywords[name] = kind(**{field: keywords.pop(field) for field in named})
    return keywords


def prepare(*arguments, **keywords):
    return tokenmill.prepare(*arguments, **grouped(keywords))


def retokenize(*arguments, **keywords):
    return tokenmill.retokenize(*arguments, **grouped(keywords))


def train_tokenizer(*arguments, **keywords):
    return tokenmill.train_tokenizer(*arguments, **grouped(keywords))


def plan(*arguments, **keywords):
    return jobs.plan(*arguments, **grouped(keywords))


def estimate(*arguments, **keywords):
    return plain_estimate(*arguments, **grouped(keywords))
