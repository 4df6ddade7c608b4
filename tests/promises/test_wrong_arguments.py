"""Promise: an argument of a wrong type is refused by us, with its name or its value.

Every keyword of every public function gets values of many types. What Python or NumPy would say of
them, deep inside (`'str' object has no attribute 'names'`), tells a user nothing.
"""

import dis
import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.errors import DownloadError, UploadError
from tokenmill.preparation import Details, Run

SOURCE = str(Path(tokenmill.__file__).parent)
# Of no type that any argument has.
WRONG = {
    "object": object(),
    "complex": 1j,
    "bytes": b"bytes",
    "dict of numbers": {1: 2},
    "list of objects": [object()],
    "dict of objects": {"a": object()},
    "array": np.arange(3),
    "tuple of numbers": (1, 2),
}
# Of the type of some.
ODD = [3.5, float("nan"), "nonsense", "", -1, 10**30, True, None, [], ["x"], {}, Path("nowhere")]
# Arguments that one of the former suits.
TAKEN = {
    ("from_array", "ids"): {"array", "tuple of numbers"},
    ("from_array", "document_ends"): {"array", "tuple of numbers"},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "a.txt").write_text("Some words of a text.\n\nAnd some more of them.\n" * 20)
    tokenmill.prepare(folder / "a.txt", folder / "data", workers=1)
    return folder


def calls(folder, outputs):
    """Each public function, with arguments that work."""
    data = tokenmill.open(folder / "data")
    text = folder / "a.txt"
    number = itertools.count()

    def new():
        return outputs / f"out-{next(number)}"

    def batch(**arguments):
        with_batch = tokenmill.BatchLoader(**arguments)
        next(with_batch)
        with_batch.close()

    batch.__signature__ = inspect.signature(tokenmill.BatchLoader)
    return {
        "BatchLoader": (batch, lambda: {"data": data, "batch_size": 2, "block_size": 8}),
        "Mixture": (tokenmill.Mixture, lambda: {"sources": {"a": data}, "weights": {"a": 1}}),
        "convert": (
            tokenmill.convert,
            lambda: {"src": folder / "data", "dst": new(), "to": "npy"},
        ),
        "download": (tokenmill.download, lambda: {"folder": new()}),
        "from_array": (tokenmill.from_array, lambda: {"ids": np.arange(100)}),
        "inspect": (tokenmill.inspect, lambda: {"path": folder / "data"}),
        "load_tokenizer": (tokenmill.load_tokenizer, lambda: {"name_or_path": "bytes"}),
        "open": (tokenmill.open, lambda: {"path": folder / "data"}),
        "prepare": (
            tokenmill.prepare,
            lambda: {"inputs": text, "out_dir": new(), "workers": 1, "tokenizer": "bytes"},
        ),
        "pretokenize": (
            tokenmill.pretokenize,
            lambda: {"paths": text, "tokenizer": "bytes", "force": True},
        ),
        "retokenize": (
            tokenmill.retokenize,
            lambda: {"src": folder / "data", "out_dir": new(), "tokenizer": "bytes"},
        ),
        "train_tokenizer": (
            tokenmill.train_tokenizer,
            lambda: {"inputs": text, "out_dir": new(), "vocab_size": 260, "workers": 1},
        ),
        "upload": (tokenmill.upload, lambda: {"folder": folder / "data", "repo_id": "a/b"}),
        "verify": (tokenmill.verify, lambda: {"path": folder / "data"}),
        "write_tokens": (
            tokenmill.write_tokens,
            lambda: {"documents": [[1, 2]], "out_dir": new(), "end_of_text_id": 0},
        ),
    }


FUNCTIONS = sorted(set(tokenmill.__all__) - {"__version__", "TokenDataset", "TokenmillError"})
ARGUMENTS = [
    (name, argument)
    for name in FUNCTIONS
    for argument in inspect.signature(getattr(tokenmill, name)).parameters
]


def is_raised_by_us(error):
    """Whether a `raise` of ours is where it began, not a line that Python could not run."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    names = {step.offset: step.opname for step in dis.get_instructions(code)}
    return code.co_filename.startswith(SOURCE) and names[last.tb_lasti] == "RAISE_VARARGS"


def error_of(call, value):
    """The error of a call, which must be ours; None if the value was accepted."""
    try:
        call(value)
    except (DownloadError, UploadError):
        return None  # it came as far as the network
    except Exception as error:
        kinds = tokenmill.TokenmillError | ValueError | TypeError | IndexError
        if not is_raised_by_us(error) or not isinstance(error, kinds):
            pytest.fail(f"{value!r} ends in {error!r}")
        return error
    return None


def accepted(call, argument):
    """Names of the wrong values that are accepted; others are refused with name or value."""
    found = set()
    for what, value in WRONG.items():
        error = error_of(call, value)
        if error is None:
            found.add(what)
        else:
            assert argument in str(error) or repr(value) in str(error)
    for value in ODD:
        error_of(call, value)
    return found


def test_every_public_function_is_here(folder, tmp_path):
    assert sorted(calls(folder, tmp_path)) == FUNCTIONS


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_a_value_of_a_wrong_type_is_refused_with_its_name(
    folder, name, argument, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    function, arguments = calls(folder, tmp_path)[name]

    def call(value):
        given = {**arguments(), argument: value}
        if argument == "schedule":
            del given["weights"]
        function(**given)

    assert accepted(call, argument) == TAKEN.get((name, argument), set())


@pytest.mark.parametrize("kind", [BatchForm, Details, Run])
def test_a_wrong_field_of_an_options_object_is_refused_with_its_name(kind):
    for argument in inspect.signature(kind).parameters:

        def call(value, argument=argument):
            kind(**{argument: value})

        assert accepted(call, argument) == set(), argument


def test_a_mistyped_keyword_is_named_with_the_right_one():
    with pytest.raises(TypeError, match=r"open\(\) has no argument 'slpit'; did you mean 'split'"):
        tokenmill.open("data", slpit="val")


def test_numbers_of_numpy_and_paths_are_taken_as_those_of_python(folder):
    data = tokenmill.open(folder / "data")

    loader = tokenmill.BatchLoader(data, batch_size=np.int64(2), block_size=np.uint8(8))
    summary = tokenmill.prepare(
        np.array([str(folder / "a.txt")]).tolist(),
        folder / "numpy",
        tokenizer=Path("bytes"),
        tokens_per_shard=np.int32(100),
        val_fraction=np.float32(0.5),
    )

    assert type(loader.state_dict()["block_size"]) is int
    assert (
        summary.train_tokens + summary.val_tokens
        == tokenmill.open(folder / "numpy", "all").num_tokens
    )


def test_a_path_in_the_place_of_a_dataset_is_to_be_opened_first():
    with pytest.raises(TypeError, match=r"(?s)data is 'data/corpus'; .*tokenmill\.open\("):
        tokenmill.BatchLoader("data/corpus", batch_size=2)
