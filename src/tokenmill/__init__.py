"""Tokenize text once, then train on it from disk.

files --> text/ --> tokens/ --> shards/ --> (disk)                      prepare.py tells this half
                                   |
                                   v
                  formats/ --> dataset.py --> order/ --> batches/ --> torch, lightning, train
                (anyone's files)            (integers only)           batches/loader.py tells it

 errors.py       our few exceptions; each carries what, where, and what to do
 prepare.py      the offline half: plan, map, decide, layout, assemble, commit
 preparation/    its stages, one a file
 pretokenize.py  one text file becomes one .npy beside it
 text/           files become documents: find, cut into units, read, clean, dedup
 tokens/         documents become ids: the tokenizer protocol, loading one by name, encoding
 shards/         ids become files: layout, manifest, read, verify, a cache for remote ones
 formats/        everybody else's token files seen as ours, one small module each
 convert.py      from any format to any other; conversion/ its steps
 dataset.py      open(path) -> TokenDataset: any format as one axis of tokens
 order/          which window comes when; integers in, integers out, no files
 batches/        windows become arrays: gather, documents, state, prefetch, loader
 torch/          the loader as tensors; lightning.py the data module on top
 train/          a small GPT and its training loop, fed by the loader
 hub/            shards from and to the Hugging Face hub
 storage/        object storage: ranges, retries, whole uploads
 look/           what a dataset holds and what is wrong with it: inspect, show, doctor
 pages/          the same for a browser: report, view
 executors/      where prepare's tasks run: local processes, Ray, numbered jobs; know only tasks
 jobs.py         a preparation in numbered parts: plan, work, status, finish
 cli/            one file a command, loaded when called, no logic of its own
"""

import importlib
from typing import TYPE_CHECKING, Any

from tokenmill.version import __version__

if TYPE_CHECKING:
    from tokenmill.batches.loader import BatchLoader
    from tokenmill.batches.mixture import Mixture
    from tokenmill.dataset import TokenDataset, from_array, open
    from tokenmill.errors import TokenmillError
    from tokenmill.hub import download_tokenized_data
    from tokenmill.preparation.prepare import prepare
    from tokenmill.preparation.pretokenize import pretokenize

__all__ = [
    "BatchLoader",
    "Mixture",
    "TokenDataset",
    "TokenmillError",
    "__version__",
    "download_tokenized_data",
    "from_array",
    "open",
    "prepare",
    "pretokenize",
]

# Loaded when first asked for, so that `import tokenmill` and the command start at once.
_HOME_OF = {
    "BatchLoader": "tokenmill.batches.loader",
    "Mixture": "tokenmill.batches.mixture",
    "TokenDataset": "tokenmill.dataset",
    "TokenmillError": "tokenmill.errors",
    "download_tokenized_data": "tokenmill.hub",
    "from_array": "tokenmill.dataset",
    "open": "tokenmill.dataset",
    "prepare": "tokenmill.preparation.prepare",
    "pretokenize": "tokenmill.preparation.pretokenize",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
