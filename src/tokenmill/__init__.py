"""Tokenize text once, then train on it from disk.

files --> text/ --> tokens/ --> shards/ --> (disk)        preparation/prepare.py has this half
                                   |
                                   v
 formats/ --> reading/ --> dataset.py --> order/ --> batches/ --> torch, lightning, train
(anyone's files)                        (integers only)       batches/loader.py has this half

conversion/, forgetting/, hub/ and look/ use both halves; edits/ and augment/ change what is served;
compat/ has names that scripts use, trainers/ fits other trainers; executors/ run tasks anywhere,
stores/ reads and writes buckets. cli/, pages/ and metrics show all of it; kernel/, base/ and
errors.py are below.
"""

import importlib

from tokenmill.version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take it for True; importing typing would take 5 ms

if TYPE_CHECKING:
    from tokenmill.batches.loader import BatchLoader as BatchLoader
    from tokenmill.batches.mixture import Mixture as Mixture
    from tokenmill.conversion.convert import convert as convert
    from tokenmill.conversion.write_tokens import write_tokens as write_tokens
    from tokenmill.dataset import TokenDataset as TokenDataset
    from tokenmill.dataset import from_array as from_array
    from tokenmill.dataset import open as open
    from tokenmill.errors import TokenmillError as TokenmillError
    from tokenmill.hub import download as download
    from tokenmill.hub import upload as upload
    from tokenmill.look.check import verify as verify
    from tokenmill.look.inspect import inspect as inspect
    from tokenmill.preparation.prepare import prepare as prepare
    from tokenmill.preparation.pretokenize import pretokenize as pretokenize
    from tokenmill.preparation.retokenize import retokenize as retokenize
    from tokenmill.preparation.train_tokenizer import train_tokenizer as train_tokenizer
    from tokenmill.tokens.load_tokenizer import load

    load_tokenizer = load

# Loaded when first asked for, so that `import tokenmill` and the command start quickly.
_HOME_OF = {
    "BatchLoader": "tokenmill.batches.loader",
    "Mixture": "tokenmill.batches.mixture",
    "TokenDataset": "tokenmill.dataset",
    "TokenmillError": "tokenmill.errors",
    "convert": "tokenmill.conversion.convert",
    "download": "tokenmill.hub",
    "from_array": "tokenmill.dataset",
    "inspect": "tokenmill.look.inspect",
    "load_tokenizer": "tokenmill.tokens.load_tokenizer",
    "open": "tokenmill.dataset",
    "prepare": "tokenmill.preparation.prepare",
    "pretokenize": "tokenmill.preparation.pretokenize",
    "retokenize": "tokenmill.preparation.retokenize",
    "train_tokenizer": "tokenmill.preparation.train_tokenizer",
    "upload": "tokenmill.hub",
    "verify": "tokenmill.look.check",
    "write_tokens": "tokenmill.conversion.write_tokens",
}
__all__ = sorted([*_HOME_OF, "__version__"])
_NAME_THERE = {"load_tokenizer": "load"}  # in a module that says the rest
_PUBLIC_ROOMS = (
    *("augment", "compat", "edits", "errors", "forgetting", "metrics", "preparation", "torch"),
    "train",
)


def __getattr__(name: str) -> object:
    if name in _PUBLIC_ROOMS:
        return importlib.import_module(f"tokenmill.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), _NAME_THERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PUBLIC_ROOMS]
