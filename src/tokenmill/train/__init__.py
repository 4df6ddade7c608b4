"""A small GPT and its training loop, fed by the loader.

start.py         train() starts or resumes a run; sample(): text from its model
loop.py          the loop: step, log, validate on fixed batches, save
model.py         the GPT, how it generates, its optimizer and learning rate
config.py        the settings, from JSON, flags and keywords
run_data.py      the four ways of giving data; a run at its last checkpoint, to look at
collectives.py   the few things ranks do together, and the device of each
checkpoint.py    one folder per step, complete or not there
metrics.py       the numbers of every step: metrics.jsonl, TensorBoard, W&B; bits per byte
run_page.py      run.html and loss.svg: losses, what was trained on and when, settings
edits_file.py    edits.jsonl: the edits that are asked of a run, how ranks make them together
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
