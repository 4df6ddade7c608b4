"""A format is one class in one file, and only formats/ knows formats by name."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from formats import test_conformance
from formats.conformance import DATA
from formats.our_files import write_ours

import tokenmill
from tokenmill.formats.format import (
    FILE_SIGNS,
    FORMATS,
    READ_ONLY,
    WRITABLE,
    FileFormat,
    FolderFormat,
    TokenFormat,
    format_to_write,
    load_format,
    token_dtype,
)
from tokenmill.formats.not_tokens import HEADER_MARKS
from tokenmill.formats.samples import SampleFormat

PACKAGE = Path(tokenmill.__file__).parent
NAMES = {*FORMATS, "ours"}
each_format = pytest.mark.parametrize("format", [load_format(name) for name in FORMATS])
each_writable = pytest.mark.parametrize("name", WRITABLE)


def strings(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is str}


def names_compared(source: str) -> list[str]:
    """Where a program decides by the name of a format: `==`, `in`, `case`, or a table by name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        decides: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            decides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            decides = [node.value]
        elif isinstance(node, ast.Dict) and len([k for k in node.keys if k]) > 1:
            decides = [key for key in node.keys if key is not None]
        for part in decides:
            found += [f"line {part.lineno}: {name}" for name in strings(part) & NAMES]
    return found


def test_nobody_outside_formats_compares_their_names():
    """In rooms that know no formats, "tokenmill" is an encoder and "megatron" a form of batches."""
    others = {"tokens": "tokenmill", "torch": "megatron"}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        if room != "formats":
            names = {name.rpartition(" ")[2] for name in names_compared(path.read_text())}
            assert names <= {others.get(room)}, path


@pytest.mark.parametrize(
    "line",
    [
        'if to == "llmc": pass',
        'x = data.format != "tokenmill"',
        'if to in ("npy", "raw"): pass',
        'match to:\n    case "mds": pass',
        'WRITERS = {"npy": 1, "dolma": 2}',
    ],
)
def test_such_a_comparison_would_be_found(line):
    assert names_compared(line)
    assert not names_compared('print("npy", x == ".npy", f(format="mds"))')


@each_format
def test_a_format_is_the_only_one_in_its_file_but_two_are_only_read(format):
    module = inspect.getmodule(type(format))
    classes = [
        c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__
    ]
    names = {c.name for c in classes if issubclass(c, TokenFormat) and not inspect.isabstract(c)}

    assert isinstance(format, TokenFormat)
    assert names == (set(READ_ONLY) if format.name in READ_ONLY else {format.name})
    assert (format.writer is None) == (format.name in READ_ONLY)


@each_format
def test_a_format_says_no_more_than_the_protocol_knows(format):
    kind = type(format).__mro__[1]
    assert kind in (FileFormat, FolderFormat, SampleFormat)
    known = {*dir(kind), "name"}
    assert {name for name in vars(type(format)) if not name.startswith("_")} <= known
    for name, member in vars(type(format)).items():
        if inspect.isfunction(member):
            stated = inspect.signature(getattr(kind, name))
            assert list(inspect.signature(member).parameters) == list(stated.parameters)


@each_format
def test_a_format_passes_the_suite(format):
    suites = [each for each in vars(test_conformance).values() if inspect.isclass(each)]
    assert format.name in {suite.format for suite in suites if suite.__name__.startswith("Test")}


def test_a_class_that_lacks_a_method_cannot_be_a_format():
    class OnlyNamed(FileFormat):
        name = "half"

    with pytest.raises(TypeError, match="read"):
        OnlyNamed()


@each_writable
def test_what_a_format_says_about_writing_fits_together(name):
    format = load_format(name)

    assert "uint16" in format.dtypes
    assert {"uint32", "int32"} & set(format.dtypes)
    assert all(token_dtype(dtype).name == dtype for dtype in format.dtypes)
    assert 1 <= format.tokens_per_shard <= format.max_tokens_per_shard
    assert format.is_indexed or format.documents_by_id


@each_writable
def test_what_was_written_has_the_suffixes_and_states_what_the_class_says(name, tmp_path):
    """One document of three tokens, written by the class and read by the class."""
    format = load_format(name)
    if format.needs_tokenizer:
        pytest.skip("convert gives it a tokenizer; tests/conversion")
    dtype = np.dtype("<u2")
    writer = format.writer(tmp_path, "train", dtype, 100)
    writer.add(np.array([1, 2, 50256], dtype), np.array([3]))
    assert writer.close() == 1
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    masks = {".loss", ".labels_mask"}  # only of data that has one: test_columns_carried.py
    assert {path.suffix for path in written} == set(format.written_suffixes) - masks
    format.writer.complete(tmp_path, {"train": writer}, None)

    options = {} if format.states_dtype else {"dtype": dtype}
    data = tokenmill.open(tmp_path, "all", **options)

    assert data.tokens(0, 3).tolist() == [1, 2, 50256]
    assert (data.format, data.has_index) == (name, format.is_indexed)
    for sign in FILE_SIGNS:
        if sign.name == name:
            assert Path(data.files[0].path).suffix in sign.suffixes
    if not format.states_dtype:
        with pytest.raises(tokenmill.TokenmillError, match="type is unknown"):
            tokenmill.open(tmp_path, "all")


@pytest.mark.parametrize("name", ["llmc", "npy"])
def test_a_header_begins_with_a_mark(name):
    file = tokenmill.open(DATA / name, "all").files[0]

    assert Path(file.path).read_bytes().startswith(HEADER_MARKS)


def test_ours_has_two_names_and_what_is_only_read_is_not_written():
    assert format_to_write("ours") is format_to_write("tokenmill") is load_format("tokenmill")
    with pytest.raises(ValueError, match="format to write is 'modalities'"):
        format_to_write("modalities")


@pytest.mark.parametrize("name", ["tokenmill", "npy", "llmc"])
def test_opening_imports_the_one_format_that_claims_the_files(name, tmp_path):
    folder = DATA / name
    if name == "tokenmill":
        folder = write_ours(tmp_path / "data", {"train": [[1, 50256]]}, 10)
    code = (
        "import sys, tokenmill; tokenmill.open(sys.argv[1]); "
        "print(*(m.removeprefix('tokenmill.formats.') for m in sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )

    modules = {*FORMATS, "ours", "read_only"} - {"tokenmill"}
    assert modules & set(done.stdout.split()) == {"ours" if name == "tokenmill" else name}
