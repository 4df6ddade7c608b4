"""Runs of an axis that are held: no more than may be open, and none is loaded again too soon."""

from types import SimpleNamespace

import numpy as np
import pytest

from tokenmill import kernel
from tokenmill.order.spans import whole_rows
from tokenmill.reading.span_reader import RunReader

ANY_ID = SimpleNamespace(largest=2**64 - 1, end_of_text=None, comes_before=False)


@pytest.mark.parametrize("with_kernel", [True, False])
def test_what_was_put_in_first_makes_room(monkeypatch, with_kernel):
    monkeypatch.setattr(kernel, "compiled", kernel.compiled if with_kernel else None)
    ids = np.arange(40, dtype=np.uint16)
    edges = np.arange(0, 41, 10)  # four runs
    loaded = []

    def load(run):
        loaded.append(run)
        return ids[edges[run] : edges[run + 1]]

    reader = RunReader(edges, ids.dtype, load, 2, ANY_ID)
    out = np.zeros((1, 5), np.int64)
    for start in (0, 10, 3, 14, 20, 12, 22, 5, 30):
        reader.read(whole_rows(np.array([start]), 5), out)
        assert out[0].tolist() == list(range(start, start + 5))

    assert loaded == [0, 1, 2, 0, 3]
