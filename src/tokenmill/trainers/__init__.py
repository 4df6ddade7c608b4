"""Adapters for the trainers of other projects, each imported when it is used.

nanochat.py, litgpt.py, torchtitan.py, olmo_core.py and megatron_core.py (as `megatron`) import
their trainer; hf_datasets.py gives a `datasets.IterableDataset` for TRL. The pages of
docs/frameworks.md show each.
"""

import importlib

TYPE_CHECKING = False  # as in tokenmill/__init__.py

if TYPE_CHECKING:
    from tokenmill.trainers.hf_datasets import hf_dataset as hf_dataset

_MODULES = ("litgpt", "megatron", "nanochat", "olmo_core", "torchtitan")
__all__ = ["hf_dataset", *_MODULES]


def __getattr__(name: str) -> object:
    if name == "hf_dataset":
        return importlib.import_module("tokenmill.trainers.hf_datasets").hf_dataset
    if name not in _MODULES:
        raise AttributeError(f"module 'tokenmill.trainers' has no attribute {name!r}")
    file = "megatron_core" if name == "megatron" else name
    return importlib.import_module(f"tokenmill.trainers.{file}")
