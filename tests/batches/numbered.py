"""Tokens that say where they are."""

import numpy as np

from tokenmill.dataset import TokenDataset, from_array


def numbered(num_tokens: int, first: int = 0) -> TokenDataset:
    """A dataset in memory in which token i has id first + i."""
    return from_array(np.arange(first, first + num_tokens, dtype=np.uint32))
