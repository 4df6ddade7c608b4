"""Runs of hashes: what they cannot hold is refused, not wrapped."""

import numpy as np
import pytest

from tokenmill.errors import PrepareError
from tokenmill.preparation.stages.duplicates import RunWriter
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.cleaning.dedup import hash_all


@pytest.mark.parametrize(("ordinal", "fits"), [((1 << 32) - 1, True), (1 << 32, False)])
def test_a_unit_with_more_lines_than_32_bits_count(tmp_path, ordinal, fits):
    with RunWriter(Workspace(tmp_path), "lines", "0") as writer:
        hashes, ordinals = hash_all([b"a line"]), np.array([ordinal])
        if fits:
            writer.add(hashes, ordinals)
            assert writer.finish()["runs"] == [1]
        else:
            with pytest.raises(PrepareError, match="more than 4,294,967,296 lines or documents"):
                writer.add(hashes, ordinals)
