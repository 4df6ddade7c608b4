"""Batches are made several at a time: each is as if it had been made alone."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from tokenmill import BatchLoader, Mixture
from tokenmill.batches import BatchForm, batch_maker
from tokenmill.batches.batch_maker import BatchMaker
from tokenmill.dataset import from_array

FIELDS = ["document_ids", "positions", "loss_mask", "cu_seqlens"]


def documents(seed, num_tokens, end, dtype):
    rng = np.random.default_rng(seed)
    return from_array(
        np.where(rng.random(num_tokens) < 0.1, end, rng.integers(10, 99, num_tokens)).astype(dtype),
        end_of_text=end,
        end_of_text_comes="before" if end % 2 else "after",
    )


ONE = documents(0, 3000, 7, np.uint16)
MIXED = Mixture(
    {"a": ONE, "b": documents(1, 2000, 8, np.uint32), "c": documents(2, 900, 9, np.int32)},
    weights={"a": 0.5, "b": 0.3, "c": 0.2},
)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [(ONE, "int64"), (ONE, "uint16"), (MIXED, "int64")],
    ids=["one", "as stored", "mixed"],
)
def test_a_batch_in_a_run_equals_the_one_made_for_its_step_alone(data, dtype):
    loader = BatchLoader(
        data, batch_size=3, block_size=16, documents=True, form=BatchForm(dtype=dtype)
    )

    for step in range(70):
        made, alone = next(loader), loader.batch(step)
        assert made.step == alone.step == step
        assert made.max_seqlen == alone.max_seqlen
        for field in ("tokens", "samples", "starts", "sources", *FIELDS):
            assert np.array_equal(getattr(made, field), getattr(alone, field)), field
        assert made.tokens.dtype == dtype


def test_batches_do_not_share_memory():
    loader = BatchLoader(
        ONE, batch_size=3, block_size=16, documents=True, form=BatchForm(dtype="uint16")
    )
    batches = [next(loader) for _ in range(20)]
    copies = [[getattr(batch, field).copy() for field in FIELDS] for batch in batches]

    for batch in batches[::2]:
        for field in ("tokens", *FIELDS):
            getattr(batch, field)[:] = 0

    for batch, copy in list(zip(batches, copies, strict=True))[1::2]:
        assert (batch.tokens == loader.batch(batch.step).tokens).all()
        assert all((getattr(batch, f) == c).all() for f, c in zip(FIELDS, copy, strict=True))


def test_a_batch_with_too_many_documents_is_refused_in_its_turn():
    ids = np.ones(16 * 40 + 1, np.uint16)
    ids[16 * 21 : 16 * 22] = 7  # row 21 is all crumbs
    loader = BatchLoader(
        from_array(ids, end_of_text=7),
        batch_size=1,
        block_size=16,
        order="sequential",
        documents=True,
        form=BatchForm(max_documents=3),
    )

    for step in range(21):
        assert next(loader).step == step
    with pytest.raises(ValueError, match="max_documents=3"):
        next(loader)
    assert loader.step == 21


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a rule of glibc")
def test_batches_use_the_memory_of_those_before_them():
    """Otherwise each takes some tens of new pages from the kernel."""
    code = (
        "import resource, numpy as np, tokenmill\n"
        "from tokenmill.dataset import from_array\n"
        "data = from_array(np.ones(300_000, np.uint16), end_of_text=7)\n"
        "loader = tokenmill.BatchLoader(data, batch_size=64, block_size=1024, documents=True)\n"
        "def faults(num_batches):\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(num_batches):\n"
        "        batch = next(loader)\n"
        "        batch.document_ids, batch.positions\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "faults(100)\n"
        "print(faults(100) / 100)\n"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 10


def test_where_reading_is_slow_no_batch_is_made_that_was_not_asked_for(monkeypatch):
    monkeypatch.setattr(batch_maker, "SECONDS_AT_ONCE", 0.0)
    made = []
    make = BatchMaker._make

    def count(self, steps, located, low, high):
        made.append(high - low)
        return make(self, steps, located, low, high)

    monkeypatch.setattr(BatchMaker, "_make", count)
    loader = BatchLoader(ONE, batch_size=3, block_size=16, form=BatchForm(prefetch=0))
    for _ in range(20):
        next(loader)

    assert made == [1] * 20
