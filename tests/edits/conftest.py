"""Datasets in files, with shards of awkward lengths."""

import pytest

import tokenmill


@pytest.fixture
def in_shards(tmp_path):
    """Write an array as raw files of the given lengths, and open them as one dataset."""

    def make(ids, lengths, **options):
        assert sum(lengths) == len(ids)
        paths, start = [], 0
        for i, length in enumerate(lengths):
            paths.append(tmp_path / f"part_{i:03}.bin")
            ids[start : start + length].tofile(paths[-1])
            start += length
        return tokenmill.open(paths, split="all", dtype=ids.dtype.name, **options)

    return make
