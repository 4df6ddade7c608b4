"""Tokens whose ids say where they are, so that a wrong window cannot look right."""

import numpy as np

from tokenmill.dataset import TokenDataset, from_array


def numbered(num_tokens: int = 1000) -> TokenDataset:
    """Token i is i: a window is right when it is a run of numbers."""
    return from_array(np.arange(num_tokens, dtype=np.uint16))


def with_documents(num_tokens: int = 1000, every: int = 7) -> TokenDataset:
    """The same, with id 0 closing every seventh token's document."""
    ids = np.arange(num_tokens, dtype=np.uint16)
    ids[every - 1 :: every] = 0
    return from_array(ids, end_of_text=0)
