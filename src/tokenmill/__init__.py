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
    from tokenmill.compat import download_tokenized_data
    from tokenmill.conversion.convert import convert
    from tokenmill.dataset import TokenDataset, from_array, open
    from tokenmill.edits.edit_state import edit_state
    from tokenmill.edits.edit_values import Add, Ban, Cap, Reweight, Skip
    from tokenmill.errors import (
        BadInputError,
        CorruptShardError,
        DownloadError,
        FormatError,
        LockedError,
        MismatchError,
        MissingExtraError,
        NotADatasetError,
        OrderMismatchError,
        PrepareError,
        SettingsMismatchError,
        Stopped,
        TokenizerMismatchError,
        TokenmillError,
        TruncatedShardError,
        UnsupportedVersionError,
        UploadError,
    )
    from tokenmill.look.check import verify
    from tokenmill.look.inspect import inspect
    from tokenmill.order.blocks import Blocks
    from tokenmill.preparation.budget.estimate import estimate
    from tokenmill.preparation.from_tokens.retokenize import retokenize
    from tokenmill.preparation.prepare import prepare
    from tokenmill.preparation.pretokenize import pretokenize
    from tokenmill.preparation.train_tokenizer import train_tokenizer
    from tokenmill.tokens.load_tokenizer import load as load_tokenizer

__all__ = [
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

# Loaded when first asked for, so that `import tokenmill` and the command start at once. A name
# that is not here is an error of ours.
_HOME_OF = {
    "Add": "tokenmill.edits.edit_values",
    "Ban": "tokenmill.edits.edit_values",
    "BatchLoader": "tokenmill.batches.loader",
    "Cap": "tokenmill.edits.edit_values",
    "Blocks": "tokenmill.order.blocks",
    "Mixture": "tokenmill.batches.mixture",
    "Reweight": "tokenmill.edits.edit_values",
    "Skip": "tokenmill.edits.edit_values",
    "TokenDataset": "tokenmill.dataset",
    "convert": "tokenmill.conversion.convert",
    "download_tokenized_data": "tokenmill.compat",
    "edit_state": "tokenmill.edits.edit_state",
    "estimate": "tokenmill.preparation.budget.estimate",
    "from_array": "tokenmill.dataset",
    "inspect": "tokenmill.look.inspect",
    "load_tokenizer": "tokenmill.tokens.load_tokenizer",
    "open": "tokenmill.dataset",
    "prepare": "tokenmill.preparation.prepare",
    "pretokenize": "tokenmill.preparation.pretokenize",
    "retokenize": "tokenmill.preparation.from_tokens.retokenize",
    "train_tokenizer": "tokenmill.preparation.train_tokenizer",
    "verify": "tokenmill.look.check",
}
_NAME_THERE = {"load_tokenizer": "load"}  # in a module that says the rest


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    home = _HOME_OF.get(name, "tokenmill.errors")
    value = getattr(importlib.import_module(home), _NAME_THERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
