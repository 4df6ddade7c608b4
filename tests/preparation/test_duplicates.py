"""A search finds what a set finds, whatever fits into memory; what it cannot hold is refused."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from flat import prepare
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation.oracle import IN_MEMORY, hashes_of_files

from tokenmill.errors import PrepareError
from tokenmill.preparation.stages import duplicates
from tokenmill.preparation.stages.duplicates import Search
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.text.cleaning.dedup import hash_all

SEARCH = Search("lines", 1)


@pytest.mark.parametrize(("ordinal", "fits"), [((1 << 32) - 1, True), (1 << 32, False)])
def test_a_unit_with_more_lines_than_32_bits_count(tmp_path, ordinal, fits):
    hashed = [(hash_all([b"a line"]), np.array([ordinal]))]
    if fits:
        assert SEARCH.write_hashes(WorkFolder(tmp_path), 0, hashed) == 1
    else:
        with pytest.raises(PrepareError, match="more than 4,294,967,296 lines or documents"):
            SEARCH.write_hashes(WorkFolder(tmp_path), 0, hashed)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=20), min_size=1, max_size=40),
    st.sampled_from([1, 3, 10, 1 << 20]),
)
def test_repeated_lines_are_those_that_a_set_finds(units, hashes_at_once):
    """Whether a unit and a partition fit into memory, or are spread over many batches."""
    seen, expected = set(), []
    for unit in units:
        expected.append([at for at, line in enumerate(unit) if line in seen or line in unit[:at]])
        seen |= {*unit}
    search = Search("lines", len(units), num_hashes=sum(map(len, units)))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "HASHES_AT_ONCE", hashes_at_once)
        workspace = WorkFolder(folder)
        for number, unit in enumerate(units):
            hashed = [(hash_all([b"%d" % line]), np.array([at])) for at, line in enumerate(unit)]
            search.write_hashes(workspace, number, hashed)
        for partition in range(search.partitions):
            search.run(workspace, partition)
        found = [search.repeated(workspace, number).tolist() for number in range(len(units))]
    assert found == expected


@pytest.mark.parametrize("dedup", ["lines", "documents"])
def test_many_units_give_the_bytes_of_few(dedup):
    lines = [b"This is line %d of the text.\n" % (number % 431) for number in range(600)]
    given = {"dedup": dedup, "tokenizer": "bytes", "document_is": "line", "workers": 1}
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        text, few, many = (Path(folder) / name for name in ("text.txt", "few", "many"))
        text.write_bytes(b"".join(lines))
        summary = prepare(text, few, **given)
        prepare(text, many, **given, unit_bytes=29)
        assert sum(summary.dropped.values()) == len(lines) - 431
        assert hashes_of_files(few) == hashes_of_files(many)


@pytest.mark.parametrize("dedup", ["none", "lines", "documents"])
@pytest.mark.parametrize("val_input", [None, "held.txt"])
def test_inputs_that_are_all_empty_are_named_as_such(tmp_path, dedup, val_input):
    """Nothing was hashed then, and there is nothing to search."""
    for name in ("a.txt", "held.txt"):
        (tmp_path / name).write_bytes(b"")
    more = {} if val_input is None else {"val_input": tmp_path / val_input}

    with pytest.raises(PrepareError, match="is left to write"):
        prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", dedup=dedup, **more)

    assert not (tmp_path / "out").exists()
