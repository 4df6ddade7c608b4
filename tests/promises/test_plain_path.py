"""Promise: the plain path loads no feature that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

PREPARE = """if True:
    import sys
    import tokenmill
    tokenmill.prepare("a.txt", "out", workers=1)
    print(*(name for name in sys.modules if name.partition(".")[0] == "tokenmill"))
"""
NOT_FOR_PLAIN_TEXT = {
    "tokenmill.text.cleaning.clean",
    "tokenmill.text.reading.read_csv",
    "tokenmill.text.reading.read_jsonl",
    "tokenmill.text.reading.read_table",
    "tokenmill.preparation.planning.val_inputs",
    "tokenmill.preparation.stages.cleaned_text",
    "tokenmill.preparation.stages.duplicates",
    "tokenmill.preparation.stages.long_documents",
    "tokenmill.preparation.stages.unpack",
}
MOST_FOR_PREPARE = 75

TEN_BATCHES = """if True:
    import sys
    import tokenmill
    loader = tokenmill.BatchLoader(tokenmill.open("out"), batch_size=2, block_size=8)
    for _ in range(10):
        next(loader)
    loader.state_dict()
    print(*(name for name in sys.modules if name.partition(".")[0] == "tokenmill"))
"""
NOT_FOR_PLAIN_BATCHES = {
    "tokenmill.batches.mixture",
    "tokenmill.batches.padding",
    "tokenmill.batches.document_masks",
    "tokenmill.order.mixture_order",
    "tokenmill.order.blocks",
    "tokenmill.order.row_order",
    "tokenmill.reading.frames",
    "tokenmill.reading.block_reader",
    "tokenmill.reading.shard_cache",
    "tokenmill.reading.document_index",
}
OUR_FORMATS = {"detect", "format", "held_out", "ours", "untrusted"}
MOST_FOR_BATCHES = 50
FEATURE_ROOMS = {"stores", "reading", "formats", "edits", "batches", "augment", "hub", "torch"}


def modules_after(program, folder):
    """The modules of ours that a program has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_text_file_is_prepared_with_few_modules_and_no_feature(tmp_path):
    (tmp_path / "a.txt").write_text("A few words on a line.\n" * 50)

    modules = modules_after(PREPARE, tmp_path)

    assert "tokenmill.preparation.stages.encode" in modules
    assert not modules & NOT_FOR_PLAIN_TEXT
    rooms = {name.split(".")[1] for name in modules if "." in name}
    assert not rooms & FEATURE_ROOMS
    assert len(modules) <= MOST_FOR_PREPARE, sorted(modules)


def test_ten_batches_of_a_local_dataset_load_few_modules_and_no_feature(tmp_path):
    (tmp_path / "a.txt").write_text("A few words on a line.\n" * 50)
    modules_after(PREPARE, tmp_path)

    modules = modules_after(TEN_BATCHES, tmp_path)

    assert "tokenmill.batches.loader" in modules
    assert not modules & NOT_FOR_PLAIN_BATCHES
    rooms = {name.split(".")[1] for name in modules if "." in name}
    assert not rooms & {"stores", "edits", "augment", "compat", "torch", "preparation", "tokens"}
    formats = {name.split(".")[2] for name in modules if name.startswith("tokenmill.formats.")}
    assert formats <= OUR_FORMATS
    assert len(modules) <= MOST_FOR_BATCHES, sorted(modules)
