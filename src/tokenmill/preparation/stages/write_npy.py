"""write: the task of `pretokenize.py` that `prepare` has not, all ids into one `.npy`."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.preparation.plan import CHUNK_BYTES, Plan, load_plan
from tokenmill.preparation.stages.encoded import read_part
from tokenmill.preparation.stages.join import load_joined
from tokenmill.preparation.workspace.work_folder import leaves_receipt
from tokenmill.shards.writer import check_read_back


@leaves_receipt(lambda _, dtype: ("npy", dtype))
def write_npy(out_dir: str, dtype: str) -> dict[str, Any]:
    """Task: write the ids of the whole text exactly as NumPy saves them, and read them back."""
    plan, name, digest = load_plan(out_dir), f"{dtype}.npy", xxhash.xxh3_128()
    path, parts = plan.workspace.path("npy", name), load_joined(out_dir).parts
    num_tokens = sum(part["tokens"] for part in parts)
    if num_tokens and plan.settings.separator is None:
        num_tokens -= 1  # one document: the end-of-text id that closes it is left out
    with new_file(path, durable=True) as file:
        for block in _npy_blocks(plan, parts, np.dtype(dtype).newbyteorder("<"), num_tokens):
            file.write(block)
            digest.update(block)
    check_read_back(path, digest.hexdigest())
    known = {name: (path.stat().st_size, digest.hexdigest())}
    facts = {"name": name, "tokens": num_tokens}
    return plan.workspace.leave_receipt("npy", dtype, known, facts)


def _npy_blocks(
    plan: Plan, parts: list[dict[str, Any]], dtype: np.dtype[Any], num_tokens: int
) -> Iterator[bytes | memoryview]:
    """The header, then the first `num_tokens` ids of all parts."""
    header = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (num_tokens,)}
    np.lib.format.write_array_header_1_0(header, shape)
    yield header.getvalue()
    for part in parts:
        ids = read_part(plan, part, "tokens")[:num_tokens]
        num_tokens -= len(ids)
        for start in range(0, len(ids), CHUNK_BYTES):
            yield np.ascontiguousarray(ids[start : start + CHUNK_BYTES], dtype).data
