"""Promise: the plain path, from a local dataset to batches, loads no feature that is not used."""

import os
import subprocess
import sys
from pathlib import Path

import tokenmill

PACKAGE = Path(tokenmill.__file__).parent
MOST_MODULES = 50
FEATURES = ("edits", "stores", "augment", "compat", "torch", "preparation", "tokens", "text")
PARTS = (
    "batches.mixture",
    "order.mixture_order",
    "order.shares",
    "order.blocks",
    "order.row_order",
    "batches.padding",
    "batches.document_masks",
    "reading.frames",
    "reading.packed_reader",
    "reading.shard_cache",
    "reading.document_index",
)
OUR_FORMATS = {"detect", "format", "held_out", "ours", "registry", "untrusted"}

TEN_BATCHES = """
import sys, tokenmill
loader = tokenmill.BatchLoader(tokenmill.open(sys.argv[1]), batch_size=2, block_size=8)
for _ in range(10):
    next(loader)
loader.state_dict()
print(*(name for name in sys.modules if name.split(".")[0] == "tokenmill"))
"""


def modules_after(code, *arguments):
    """Names of our modules that a fresh process has loaded after some code, without `tokenmill.`"""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    return [name.removeprefix("tokenmill.") for name in done.stdout.split()]


def test_ten_batches_of_a_local_dataset_load_few_modules_and_no_feature(tmp_path):
    (tmp_path / "a.txt").write_text("One line of text.\n" * 200)
    tokenmill.prepare([tmp_path / "a.txt"], tmp_path / "data", tokenizer="bytes")

    loaded = modules_after(TEN_BATCHES, tmp_path / "data")

    assert len(loaded) <= MOST_MODULES, sorted(loaded)
    assert [name for name in loaded if name.split(".")[0] in FEATURES or name in PARTS] == []
    formats = {name.removeprefix("formats.") for name in loaded if name.startswith("formats.")}
    assert formats <= OUR_FORMATS
