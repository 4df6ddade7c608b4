"""Which documents are meant: by SQL over their facts, or by the ids of their contents."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError
from tokenmill.reading.selected_reader import masks_of
from tokenmill.shards.forgotten import Forgotten

Chosen = dict[str, dict[int, str]]
"""Split -> number of a document in it -> id."""


def open_split(folder: Path, split: str) -> TokenDataset:
    """Open a split; every file is compared with its hash before it is used."""
    return open_dataset(folder, split, backend="pread", verify=True)


def choose(
    folder: Path, splits: Collection[str], known: Forgotten, asked: str | Sequence[str]
) -> Chosen:
    """Return the documents of all splits for which SQL is true, or whose ids are asked for."""
    chosen: Chosen = {}
    for split in splits:
        data = open_split(folder, split)
        if isinstance(asked, str):
            chosen[split] = ids_of(data, np.concatenate(list(masks_of(data, asked))))
        else:
            before = known.documents(split)
            chosen[split] = {n: key for n, key in before.items() if key in asked}
            chosen[split] |= with_ids(data, asked)
    found = {key for documents in chosen.values() for key in documents.values()}
    missing = [] if isinstance(asked, str) else [key for key in asked if key not in found]
    if missing or not found:
        names = f"{asked!r:.200}"
        if missing:
            names = f"{len(missing):,} of {len(asked):,} ids, such as {missing[0]!r:.60}"
        raise FormatError(
            f"no document of {folder} is chosen by {names}",
            hint="the id of a document is the one that its facts have, 32 hex digits; what was "
            "forgotten is found by its id alone",
        )
    return chosen


def ids_of(data: TokenDataset, mask: np.ndarray) -> dict[int, str]:
    """Return the ids of the documents that a mask chooses, by their numbers."""
    numbers = np.flatnonzero(mask)
    ids = data.all_facts.table(["id"], mask, numbers)["id"].to_pylist()
    return {number: key.hex() for number, key in zip(numbers.tolist(), ids, strict=True)}


def with_ids(data: TokenDataset, ids: Collection[str]) -> dict[int, str]:
    """Return the documents with these ids. Without facts, all documents are read for it."""
    if not data.has_facts:
        found = ((n, content_id(data, n)) for n in range(data.num_documents or 0))
        return {number: key for number, key in found if key in ids}
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted: Any = pa.array([bytes.fromhex(key) for key in ids], pa.binary(16))
    batches = data.all_facts.batches(["id"])
    masks = [np.asarray(pc.is_in(batch["id"], value_set=wanted)) for batch in batches]
    return ids_of(data, np.concatenate(masks))


def content_id(data: TokenDataset, number: int) -> str:
    """Return the id of a document as facts have it (docs/guides/facts.md), from its tokens."""
    ids = data.document(number)
    start = int(ids[0] == data.begin_token_id)
    stop = len(ids) - int(ids[-1] == data.end_of_text_id)
    return xxhash.xxh3_128_hexdigest(ids[start:stop].astype("<u4").tobytes())
