"""Tokenize text once, then train on it from disk.

files --> text/ --> tokens/ --> shards/ --> (disk)        preparation/prepare.py has this half
                                   |
                                   v
 formats/ --> reading/ --> dataset.py --> order/ --> batches/ --> torch, lightning, train
(anyone's files)                        (integers only)       batches/loader.py has this half

 errors.py       our few exceptions; each carries what, where, and what to do
 base/           what every room may use: atomic files, locks, retry, signals, progress
 kernel/         a few loops in C, with the same results as without them
 stores/         object stores: client, range reader, cache, upload
 text/           files become documents: find, cut into units, read, clean, deduplicate
 tokens/         documents become ids: the tokenizer protocol, one file a kind; training one
 shards/         our format: manifest, writer, layout, card, verify
 reading/     the engine under every format: maps, cache, document index, fingerprints
 formats/        one class a format in one file: claims, reads, writes; ours is one of them
 dataset.py      open(path) -> TokenDataset: any format as one axis of tokens
 order/          which window comes when; integers in, integers out, no files
 edits/          an edited order, its record and proof, usage
 batches/        windows become arrays: gather, document masks, state, prefetch, loader
 augment/        rows change before they are served: fill in the middle, masks, noise
 torch/          the loader as tensors, and as the loaders of the PyTorch world
 compat/         names and arguments that scripts already use, each a few lines
 train/          a small GPT and its training loop, fed by the loader
 preparation/    the offline half: prepare.py is the story, stages/ its steps
 conversion/     from any format to any other
 executors/      where tasks run: local processes, Ray, numbered jobs; know only tasks
 hub/            shards from and to the Hugging Face hub
 look/           what a dataset holds and what is wrong with it: inspect, show, verify
 pages/          the same for a browser: view
 cli/            one file a command, loaded when called, no logic of its own
"""

import importlib

from tokenmill.version import __version__

TYPE_CHECKING = False  # type checkers take it for True; importing typing would take 5 ms

if TYPE_CHECKING:
    from tokenmill.batches.loader import BatchLoader
    from tokenmill.batches.mixture import Mixture
    from tokenmill.conversion.convert import convert
    from tokenmill.dataset import TokenDataset, from_array, open
    from tokenmill.errors import TokenmillError
    from tokenmill.hub import download, upload
    from tokenmill.look.check import verify
    from tokenmill.look.inspect import inspect
    from tokenmill.preparation.prepare import prepare
    from tokenmill.preparation.pretokenize import pretokenize
    from tokenmill.preparation.retokenize import retokenize
    from tokenmill.preparation.train_tokenizer import train_tokenizer
    from tokenmill.tokens.load_tokenizer import load as load_tokenizer

__all__ = [
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
]

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
}
_NAME_THERE = {"load_tokenizer": "load"}  # in a module that says the rest
_PUBLIC_ROOMS = ("augment", "compat", "edits", "errors", "preparation", "torch", "train")


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
