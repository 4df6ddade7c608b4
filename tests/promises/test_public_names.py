"""Promise: what `import tokenmill` gives, and that the functions stay functions."""

import inspect
import os
import subprocess
import sys

import tokenmill

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(tokenmill.__path__[0])}


def test_the_public_names_are_these():
    """A name that goes, or comes, is a change users notice: it needs a line in the changelog."""
    assert tokenmill.__all__ == [
        "BatchLoader",
        "Mixture",
        "TokenDataset",
        "TokenmillError",
        "__version__",
        "convert",
        "download",
        "from_array",
        "inspect",
        "load_tokenizer",
        "open",
        "prepare",
        "pretokenize",
        "retokenize",
        "train_tokenizer",
        "upload",
        "verify",
        "write_tokens",
    ]
    for name in tokenmill.__all__:
        assert getattr(tokenmill, name) is not None


def test_rooms_with_public_names_need_no_second_import():
    """`import tokenmill` is enough for `except tokenmill.errors.TruncatedShardError`."""
    code = "import tokenmill; tokenmill.errors.FormatError; tokenmill.edits.Ban; tokenmill.augment"

    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


def test_open_takes_these_arguments():
    """New ones go to the end: what is written today must mean the same tomorrow."""
    assert list(inspect.signature(tokenmill.open).parameters) == [
        "path",
        "split",
        "format",
        "dtype",
        "backend",
        "tokenizer",
        "end_of_text",
        "end_of_text_comes",
        "cache_dir",
        "cache_bytes",
        "verify",
        "begin_token",
        "columns",
        "where",
    ]


def test_prepare_is_a_function_whatever_was_imported_first():
    code = (
        f"import sys; sys.path.insert(0, {tokenmill.__path__[0]!r} + '/..');"
        "import tokenmill.preparation.prepare, tokenmill.cli.prepare;"
        "assert callable(tokenmill.prepare) and callable(tokenmill.pretokenize)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
