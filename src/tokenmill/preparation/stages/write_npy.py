"""write: the last stage of `pretokenize.py`, all ids into one `.npy`."""

import io
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.preparation.planning.plan import CHUNK_BYTES, Plan
from tokenmill.preparation.stages.join import load_parts
from tokenmill.shards.writer import check_read_back


def write_npy(plan: Plan, path: Path, dtype: np.dtype[Any]) -> int:
    """Write the ids of the whole text exactly as NumPy saves them, and read them back.

    Returns their number.
    """
    parts = load_parts(plan.workspace.out_dir)
    num_tokens = sum(part.num_tokens for part in parts)
    if num_tokens and plan.settings.separator is None:
        num_tokens -= 1  # one document: the end-of-text id that closes it is left out
    header = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (num_tokens,)}
    np.lib.format.write_array_header_1_0(header, shape)
    digest = xxhash.xxh3_128(header.getvalue())
    left = num_tokens
    with new_file(path, durable=True) as file:
        file.write(header.getvalue())
        for ids in chain.from_iterable(part.token_arrays(plan) for part in parts):
            ids = ids[:left]
            left -= len(ids)
            for start in range(0, len(ids), CHUNK_BYTES):
                block = np.ascontiguousarray(ids[start : start + CHUNK_BYTES], dtype)
                file.write(block.data)
                digest.update(block.data)
    check_read_back(path, digest.hexdigest())
    return num_tokens
