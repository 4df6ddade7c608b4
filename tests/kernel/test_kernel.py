"""Compiled loops: optional, safe with any argument, and the same result without them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import files_of

import tokenmill
from tokenmill import kernel
from tokenmill.preparation.stages.parts import with_ends
from tokenmill.text.filters.word_rule import tables

ROOT = Path(__file__).parents[2]
LINES = ["One line  with blanks ", "", "", "\ta tab\t ", "\u2019quoted\u2019, e\u0301\x07"]
TEXT = "\n".join([*LINES, *LINES, "Another line.\n"])

IDS = np.array([1, 2], np.uint32)
BOTH = np.ones(2, bool)
# Two rows of five tokens: tokens, samples, filled; where documents are, labels; what ids are.
ROWS = (np.zeros((2, 5), np.int64), np.arange(2), np.array([5, 5]))
FLAGS = (np.ones((2, 5), bool), np.empty((2, 4), np.int64))
SPECIAL = (np.zeros(3, bool), np.empty(0, np.int64), 9)
# Two batches of one row: cu_seqlens, numbers of documents, inputs of the longest.
MARKS = (np.empty((2, 3), np.int32), np.empty(2, np.int64), np.empty(2, np.int64))
NUMBERS = (np.empty(3, np.int64), np.arange(3))
# A text of one word: hash, begin, size.
LEFT = np.ones(1, np.uint8)
WORD = (b"ab\n", np.array([2]), np.array([7, 7, 0, 2], np.uint32), np.array([1]))


def step(*numbers):
    return np.array([*numbers, *[1] * (8 - len(numbers))], np.uint64)


needs_loops = pytest.mark.skipif(
    kernel.compiled is None, reason="tokenmill.kernel.loops is not built: there was no C compiler"
)


def run(*command, cwd, **environment):
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_loops
def test_an_installation_without_a_compiler_works_and_writes_the_same_bytes(tmp_path):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv, which `make test` installs, is not there")
    source, installed = tmp_path / "source", tmp_path / "installed"
    (tmp_path / "a.txt").write_text(TEXT)
    no_results = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=no_results)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)

    options = ["--no-deps", "--target", str(installed), "--python", sys.executable]
    run(uv, "pip", "install", "--quiet", *options, str(source), cwd=tmp_path, CC="false")
    command = [sys.executable, "-P", "-m", "tokenmill"]
    version = run(*command, "--version", cwd=tmp_path, PYTHONPATH=str(installed))
    run(*command, "prepare", "a.txt", "-o", "out", cwd=tmp_path, PYTHONPATH=str(installed))
    tokenmill.prepare([tmp_path / "a.txt"], tmp_path / "with")

    assert "without compiled loops" in version
    assert files_of(tmp_path / "out") == files_of(tmp_path / "with")


@needs_loops
def test_the_version_says_that_loops_are_compiled(tmp_path):
    assert "with compiled loops" in run(
        sys.executable, "-m", "tokenmill", "--version", cwd=tmp_path
    )


def test_a_variable_selects_the_twins(tmp_path):
    assert "without compiled loops" in run(
        sys.executable, "-m", "tokenmill", "--version", cwd=tmp_path, TOKENMILL_NO_KERNEL="1"
    )


@needs_loops
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("odd_texts", ([b"a", "b"], b"")),
        ("squeeze", ([b"a", None], False, False)),
        ("squeeze", ((b"a",), False, False)),
        ("hash_lines", (b"ab\n", np.array([3]), np.ones(1, bool))),
        ("hash_lines", (b"ab\n", np.array([2, 1]), np.ones(2, bool))),
        ("hash_lines", (b"ab\n", np.array([-1]), np.ones(1, bool))),
        ("hash_lines", (b"ab\n", np.array([2]), np.ones(2, bool))),
        ("lines_that_count", (b"ab\n", np.array([1 << 40]), 1, 9)),
        ("with_ends", (np.empty(3, np.uint16), 2, IDS, np.array([1, 2]), BOTH, 9)),
        ("with_ends", (np.empty(4, np.uint16), 2, IDS, np.array([2, 1]), BOTH, 9)),
        ("with_ends", (np.empty(4, np.uint16), 2, IDS, np.array([1, 3]), BOTH, 9)),
        ("with_ends", (np.empty(4, np.uint16), 2, IDS, np.array([2]), BOTH, 9)),
        ("with_ends", (np.empty(4, np.uint16), 1, IDS, np.array([1, 2]), BOTH, 9)),
        ("with_ends", (np.empty(4, np.uint16), 4, IDS, np.array([1, 2]), BOTH, 9)),
        ("spell", (IDS, 4, b"ab", np.array([0, 1, 2], np.int32))),
        ("spell", (IDS, 4, b"ab", np.array([0, 1, 1, 3], np.int32))),
        ("spell", (IDS, 4, b"ab", np.array([0, 1, 0, 2], np.int32))),
        ("spell", (IDS, 3, b"ab", np.array([0, 1, 1, 2], np.int32))),
        ("hash_bands", ([b"a", "b"], False, 5, 10, 4)),
        ("hash_bands", ([b"a"], False, 0, 10, 4)),
        ("hash_bands", ([b"a"], False, 5, 1 << 40, 1 << 40)),
        ("compare_texts", ([b"a"], np.array([0, 1]), False, 5)),
        ("compare_texts", ([b"a"], np.array([0]), False, 5)),
        ("compare_texts", ([b"a", None], np.array([0, 1]), False, 5)),
        ("find_runs", ([b"a"], 13, 5, *[np.ones(2, np.uint64)] * 3, np.ones(2, np.uint32))),
        ("find_runs", ([b"a"], 13, 5, *[np.zeros(3, np.uint64)] * 3, np.ones(3, np.uint32))),
        ("find_runs", ([b"a"], 13, 5, *[np.zeros(2, np.uint64)] * 3, np.ones(1, np.uint32))),
        ("find_runs", ([b"a"], 1 << 62, 5, *[np.zeros(2, np.uint64)] * 3, np.ones(2, np.uint32))),
        ("mark_documents", (*MARKS, np.ones((2, 5), bool), None, 4)),
        ("mark_documents", (*MARKS, np.ones((2, 5), bool), np.array([5, 6]), 5)),
        ("mark_documents", (*MARKS, np.ones((3, 5), bool), None, 5)),
        ("mark_documents", (*MARKS, np.ones((2, 5), bool), None, 0)),
        ("spread_documents", (np.empty(4, np.int32), np.array([0, 2, 3], np.int32), 4)),
        ("spread_documents", (np.empty(4, np.int32), np.array([0, 5, 4], np.int32), 4)),
        ("spread_documents", (np.empty(4, np.int32), np.array([1, 4], np.int32), 0)),
        ("spread_documents", (np.empty(4, np.int32), b"", 0)),
        ("spread_documents", (np.empty(4, np.int32), np.array([0, 4], np.int32), -1)),
        ("augment_rows", (*ROWS, *FLAGS, step(5), *SPECIAL)),
        ("augment_rows", (*ROWS[:2], np.array([6, 5]), *FLAGS, step(1), *SPECIAL)),
        ("augment_rows", (*ROWS, None, FLAGS[1], step(0), *SPECIAL)),
        ("augment_rows", (*ROWS, FLAGS[0], None, step(2), *SPECIAL)),
        ("augment_rows", (*ROWS, FLAGS[0], None, step(4, 0, 0, 1, 1, 1, 0, 1), *SPECIAL)),
        ("augment_rows", (*ROWS, FLAGS[0], np.empty((2, 5), np.int64), step(2), *SPECIAL)),
        ("augment_rows", (*ROWS, FLAGS[0], bytes(64), step(2), *SPECIAL)),
        ("augment_rows", (*ROWS, np.ones((2, 4), bool), FLAGS[1], step(1), *SPECIAL)),
        ("augment_rows", (*ROWS, *FLAGS, step(1), np.empty(0, bool), *SPECIAL[1:])),
        ("augment_rows", (*ROWS, *FLAGS, step(4), *SPECIAL[:2], 2**32)),
        ("permute", (*NUMBERS, None, np.array([2]), np.ones(6, np.uint64), False)),
        ("permute", (*NUMBERS, np.array([0, 0, 1]), np.array([9]), np.ones(6, np.uint64), False)),
        ("permute", (*NUMBERS, None, np.array([9]), np.ones(5, np.uint64), False)),
        ("expand_rows", (*[np.empty(2, int)] * 4, *[np.array([0])] * 2, *[np.array([0, 3])] * 5)),
        ("locate_pieces", (*[np.empty(1, int)] * 2, *[np.array([1])] * 2, *[np.array([0, 1])] * 5)),
        ("split_words", (b"ab\n", np.array([4]), tables())),
        ("split_words", (b"ab\n", np.array([2]), tables()[:1])),
        ("split_words", (b"ab\n", np.array([2]), (tables()[0][1:], *tables()[1:]))),
        ("measure_texts", (*WORD, np.empty((1, 9), int), LEFT, tables(), 0, 30)),
        ("measure_texts", (*WORD, np.empty((1, 10), int), LEFT, tables(), 3, 30)),
        (
            "measure_texts",
            (*WORD[:3], np.array([2]), np.empty((1, 10), int), LEFT, tables(), 0, 30),
        ),
        (
            "measure_texts",
            (b"a\n", np.array([1]), *WORD[2:], np.empty((1, 10), int), LEFT, tables(), 0, 30),
        ),
        ("clean_lines", (*WORD, np.empty((1, 8), int), LEFT, tables(), 63, 9, 3)),
        ("measure_texts", (*WORD, np.empty((1, 10), int), b"", tables(), 0, 30)),
        ("clean_lines", (*WORD, np.empty((1, 9), int), bytes(2), tables(), 63, 9, 3)),
    ],
)
def test_what_would_be_outside_of_an_array_is_refused(function, arguments):
    with pytest.raises((TypeError, ValueError, BufferError)):
        getattr(kernel.compiled, function)(*arguments)


@needs_loops
@given(
    lengths=st.lists(st.integers(0, 40), max_size=12),
    dtype=st.sampled_from(["<u2", "<u4"]),
    data=st.data(),
)
def test_ids_with_ends_are_those_of_numpy(lengths, dtype, data):
    complete = np.array([data.draw(st.booleans()) for _ in lengths], bool)
    ends = np.cumsum(np.array(lengths, np.int64))
    ids = np.arange(sum(lengths), dtype=np.uint32) * 1601 % 65536
    arguments = ids, ends, complete, 50256, np.dtype(dtype)

    found = with_ends(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", None)
        expected = with_ends(*arguments)

    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
