"""A small GPT and its training loop, fed by the loader.

Read start.py first: `train` starts or resumes a run, loop.py is its loop, run_data.py its data.
"""

import importlib

TYPE_CHECKING = False  # as in tokenmill/__init__.py

if TYPE_CHECKING:
    from tokenmill.train.config import TrainConfig as TrainConfig
    from tokenmill.train.start import sample as sample
    from tokenmill.train.start import train as train

__all__ = ["TrainConfig", "sample", "train"]

# Loaded when first asked for: what is read from the folder of a run needs no torch.
_HOME_OF = {"TrainConfig": "config", "sample": "start", "train": "start"}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tokenmill.train' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tokenmill.train.{_HOME_OF[name]}"), name)
