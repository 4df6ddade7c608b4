"""Promise: what `import tokenmill` gives, and that the functions stay functions."""

import inspect
import subprocess
import sys

import tokenmill


def test_the_public_names_are_these():
    """A name that goes, or comes, is a change users notice: it needs a line in the changelog."""
    assert tokenmill.__all__ == [
        "Add",
        "BadInputError",
        "Ban",
        "BatchLoader",
        "Blocks",
        "Cap",
        "CorruptShardError",
        "DownloadError",
        "FormatError",
        "LockedError",
        "MismatchError",
        "MissingExtraError",
        "Mixture",
        "NotADatasetError",
        "OrderMismatchError",
        "PrepareError",
        "Reweight",
        "SettingsMismatchError",
        "Skip",
        "Stopped",
        "TokenDataset",
        "TokenizerMismatchError",
        "TokenmillError",
        "TruncatedShardError",
        "UnsupportedVersionError",
        "UploadError",
        "__version__",
        "convert",
        "download_tokenized_data",
        "edit_state",
        "estimate",
        "from_array",
        "inspect",
        "load_tokenizer",
        "open",
        "prepare",
        "pretokenize",
        "retokenize",
        "train_tokenizer",
        "verify",
    ]
    for name in tokenmill.__all__:
        assert getattr(tokenmill, name) is not None


def test_every_error_of_ours_is_public():
    """So that `except tokenmill.TruncatedShardError` needs no second import."""
    from tokenmill import errors

    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, tokenmill.TokenmillError):
            assert getattr(tokenmill, name) is value


def test_open_takes_these_arguments():
    """New ones go to the end: what is written today must mean the same tomorrow."""
    assert list(inspect.signature(tokenmill.open).parameters) == [
        "path",
        "split",
        "format",
        "dtype",
        "backend",
        "tokenizer",
        "end_of_text_id",
        "end_of_text_comes",
        "cache_dir",
        "cache_bytes",
        "verify",
        "begin_token_id",
    ]


def test_prepare_is_a_function_whatever_was_imported_first():
    code = (
        f"import sys; sys.path.insert(0, {tokenmill.__path__[0]!r} + '/..');"
        "import tokenmill.preparation.prepare, tokenmill.cli.make.prepare;"
        "assert callable(tokenmill.prepare) and callable(tokenmill.pretokenize)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
