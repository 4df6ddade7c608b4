"""Ids keep their value when they travel as signed bits of the same width."""

import numpy as np
import pytest
import torch

from tokenmill.torch.device_copy import bits_of, widen


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64"])
def test_ids_survive_the_way_to_the_device(dtype):
    largest = min(np.iinfo(dtype).max, 2**32 - 1)
    some = [[0, 1, 255, 32767], [32768, largest - 1, largest, 7]]
    ids = np.minimum(some, largest).astype(dtype)

    bits = bits_of(ids)

    assert bits.element_size() == ids.itemsize
    assert bits.data_ptr() == ids.ctypes.data  # no copy on the host
    assert torch.equal(widen(bits, dtype), torch.from_numpy(ids.astype(np.int64)))
