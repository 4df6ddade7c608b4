"""Runs of hashes: what they cannot hold is refused, not wrapped."""

import numpy as np
import pytest

from tokenmill.errors import PrepareError
from tokenmill.preparation.stages.duplicates import write_runs
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.cleaning.dedup import hash_all


@pytest.mark.parametrize(("ordinal", "fits"), [((1 << 32) - 1, True), (1 << 32, False)])
def test_a_unit_with_more_lines_than_32_bits_count(tmp_path, ordinal, fits):
    hashed = [(hash_all([b"a line"]), np.array([ordinal]))]
    if fits:
        assert write_runs(Workspace(tmp_path), "lines", 0, hashed) == [1]
    else:
        with pytest.raises(PrepareError, match="more than 4,294,967,296 lines or documents"):
            write_runs(Workspace(tmp_path), "lines", 0, hashed)
