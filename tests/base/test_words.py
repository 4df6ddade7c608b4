"""Numbers, suggestions and redacted texts in messages."""

import doctest
import subprocess
import sys

import pytest

from tokenmill.base import human, markup, suggest
from tokenmill.base.human import human_bytes, human_count, human_duration, plural
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import AS_HINT, closest, did_you_mean


def test_sizes_read_as_people_say_them():
    sizes = [0, 999, 1000, 9_949, 9_951, 99_999, 999_499, 999_600, 200_001_024, 10**12, 10**19]

    assert [human_bytes(n) for n in sizes] == [
        "0 bytes", "999 bytes", "1.0 kB", "9.9 kB", "10 kB", "100 kB", "999 kB", "1.0 MB",
        "200 MB", "1.0 TB", "10000 PB",
    ]  # fmt: skip


def test_counts_durations_and_nouns():
    assert [human_count(n) for n in (0, 7, 1000, 2_170_000, 10**12)] == [
        "0", "7", "1k", "2.17M", "1T",
    ]  # fmt: skip
    assert [human_duration(s) for s in (-3, 0.4, 59.6, 3599, 86_400)] == [
        "0:00", "0:00", "1:00", "59:59", "24:00:00",
    ]  # fmt: skip
    assert [plural(n, "shard") for n in (0, 1, 1024)] == ["0 shards", "1 shard", "1,024 shards"]


@pytest.mark.parametrize("module", [human, markup, suggest], ids=lambda module: module.__name__)
def test_the_examples_in_the_docs_are_true(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_closest_name_is_suggested_or_none():
    known = ["tokenizer", "token_pattern", "dtype"]

    assert closest("tokeniser", known) == "tokenizer"
    assert closest("xyz", known) is None
    assert did_you_mean("dtyp", known, AS_HINT) == "\n\nhint: did you mean 'dtype'?"
    assert did_you_mean("xyz", known) == ""


def test_a_mistyped_keyword_is_refused_with_the_closest():
    def source(seed=0, *, dtype=None): ...

    @takes_keywords_of(source, but={"dtype"})
    def function(path, **keywords):
        return path, keywords

    assert function("x", seed=3) == ("x", {"seed": 3})
    with pytest.raises(TypeError, match=r"no argument 'sead'; did you mean 'seed'"):
        function("x", sead=3)
    with pytest.raises(TypeError, match="'dtype'"):
        function("x", dtype="uint16")


def test_difflib_is_imported_only_after_a_mistake():
    code = "import sys, tokenmill.base.suggest; print('difflib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"False\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token hf_AbCdEfGh12345678 sent", "token *** sent"),
        ("Authorization: Bearer abc.def-1", "Authorization: ***"),
        ("https://ann:secret@hub.example/x", "https://hub.example/x"),
        ("at 'https://s3.example/x?X-Amz-Signature=ab&b=c' no", "at 'https://s3.example/x' no"),
        ("https://cdn.example/x?Policy=ab~&Key-Pair-Id=K", "https://cdn.example/x"),
        ("nothing to hide: 3 files at 10:30", "nothing to hide: 3 files at 10:30"),
    ],
)
def test_secrets_are_cut_out_of_messages(text, expected):
    assert human.redact(text) == expected
