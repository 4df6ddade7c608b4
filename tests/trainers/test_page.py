"""The page of the trainers runs as it is shown, where the trainers are."""

import os
import shutil

import pytest
from docs_blocks import blocks_of

PAGE = "docs/guides/trainers.md"


@pytest.mark.skipif(not os.environ.get("TOKENMILL_TRAINERS"), reason="all trainers: make trainers")
def test_every_block_of_python_runs(corpus, tmp_path, monkeypatch):
    shutil.copytree(corpus, tmp_path / "data" / "corpus")
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(PAGE) if block.language == "python"]

    for block in blocks:
        names = {}
        exec(compile(block.first + "\n" + block.code, f"{PAGE}:{block.line}", "exec"), names)
        if "provider" in names:
            assert len(names["provider"]([10, 10, 0])) == 3

    assert len(blocks) == 5
