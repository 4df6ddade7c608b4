"""Tokenize text once, then train on it from disk.

files --> text/ --> tokens/ --> shards/ --> (disk)                      prepare.py tells this half
                                   |
                                   v
                  formats/ --> dataset.py --> order/ --> batches/ --> torch, lightning, train
                (anyone's files)            (integers only)           batches/loader.py tells it

 errors.py       our few exceptions; each carries what, where, and what to do
 prepare.py      the offline half: plan, map, decide, layout, assemble, commit
 text/           files become documents: read, clean, dedup
 tokens/         documents become ids: the tokenizer protocol, loading one by name, encoding
 shards/         ids become files: layout, write, manifest, read, verify
 formats/        everybody else's token files seen as ours, one small module each
 dataset.py      open(path) -> TokenDataset: any format as one axis of tokens
 order/          which window comes when; integers in, integers out, no files
 batches/        windows become arrays: gather, documents, state, prefetch, loader
 torch.py        the loader as tensors; lightning.py the data module on top
 hub.py          fetch shards from the Hugging Face hub
 train/          a small GPT and its training loop, fed by the loader
 executors/      where prepare's tasks run: local processes, Ray, numbered jobs; know only tasks
 cli/            one file a command, loaded when called, no logic of its own
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmill.batches.loader import BatchLoader as BatchLoader
    from tokenmill.batches.mixture import Mixture as Mixture
    from tokenmill.dataset import TokenDataset as TokenDataset
    from tokenmill.dataset import open as open
    from tokenmill.errors import TokenmillError as TokenmillError
    from tokenmill.hub import download_tokenized_data as download_tokenized_data
    from tokenmill.prepare import prepare as prepare
    from tokenmill.pretokenize import pretokenize as pretokenize

__version__ = "0.1.0"

# Loaded when first asked for, so that `import tokenmill` costs little.
_HOME_OF = {
    "BatchLoader": "tokenmill.batches.loader",
    "Mixture": "tokenmill.batches.mixture",
    "TokenDataset": "tokenmill.dataset",
    "TokenmillError": "tokenmill.errors",
    "download_tokenized_data": "tokenmill.hub",
    "open": "tokenmill.dataset",
    "prepare": "tokenmill.prepare",
    "pretokenize": "tokenmill.pretokenize",
}
__all__ = sorted([*_HOME_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
