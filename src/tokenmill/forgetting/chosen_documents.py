"""Which documents are meant: by SQL over their facts, by the ids of their contents, by number."""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError
from tokenmill.reading.selected_reader import masks_of
from tokenmill.shards.forgotten import Forgotten
from tokenmill.shards.manifest import Manifest

_ID = re.compile("[0-9a-fA-F]{32}")
_NUMBER = re.compile(r"([A-Za-z0-9._-]+):(\d{1,18})")
Chosen = dict[str, dict[int, str]]
"""Split -> number of a document in it -> id."""


def open_split(folder: Path, split: str) -> TokenDataset:
    """Open a split by what its files say."""
    return open_dataset(folder, split, backend="pread")


def chosen_by_sql(folder: Path, manifest: Manifest, where: str) -> Chosen:
    """Return the documents of all splits for which this is true."""
    chosen = {}
    for split in manifest.splits:
        data = open_split(folder, split)
        mask = np.concatenate([np.empty(0, bool), *masks_of(data, where)])
        chosen[split] = ids_of(data, np.flatnonzero(mask))
    return chosen


def chosen_by_ids(
    folder: Path, manifest: Manifest, known: Forgotten, lines: Iterable[str]
) -> Chosen:
    """Return the documents that are named, each by its id or as SPLIT:NUMBER."""
    wanted: dict[str, int] = {}
    numbers: dict[str, list[int]] = {split: [] for split in manifest.splits}
    for count, line in enumerate(lines, 1):
        text = line.strip()
        named = _NUMBER.fullmatch(text)
        if _ID.fullmatch(text):
            wanted[text.lower()] = count
        elif named and int(named[2]) < _num_documents(manifest, named[1]):
            numbers[named[1]].append(int(named[2]))
        elif text:
            raise FormatError(
                f"line {count} of the ids is {text!r:.60}, and {folder} has no such document",
                hint="write the id that `facts` say, 32 hex digits, or a split and a number: "
                "train:4711",
            )
    chosen: Chosen = {}
    for split in manifest.splits:
        data = open_split(folder, split)
        before = known.documents(split)
        found = {number: key for number, key in before.items() if key in wanted}
        found |= with_ids(data, wanted.keys() - set(before.values())) if wanted else {}
        named_only = set(numbers[split]) - before.keys()
        found |= {n: before[n] for n in numbers[split] if n in before}
        chosen[split] = found | ids_of(data, np.array(sorted(named_only), np.int64))
    missing = wanted.keys() - {key for found in chosen.values() for key in found.values()}
    if missing:
        first = min(missing, key=wanted.__getitem__)
        raise FormatError(
            f"{len(missing):,} of {len(wanted):,} ids are of no document of {folder}; the first "
            f"is in line {wanted[first]:,}: {first}",
            hint="remove these lines, or bring the dataset that they are of; nothing was forgotten",
        )
    return chosen


def _num_documents(manifest: Manifest, split: str) -> int:
    return manifest.splits[split].num_documents if split in manifest.splits else 0


def ids_of(data: TokenDataset, numbers: np.ndarray) -> dict[int, str]:
    """Return the ids of some documents, by their numbers in ascending order."""
    if not data.has_facts:
        return {number: content_id(data, number) for number in numbers.tolist()}
    mask = np.zeros(data.num_documents or 0, bool)
    mask[numbers] = True
    ids = data.all_facts.table(["id"], mask, numbers)["id"].to_pylist()
    return {number: key.hex() for number, key in zip(numbers.tolist(), ids, strict=True)}


def with_ids(data: TokenDataset, ids: Collection[str]) -> dict[int, str]:
    """Return the documents with these ids. Without facts, all documents are read for it."""
    if not ids:
        return {}
    if not data.has_facts:
        found = ((n, content_id(data, n)) for n in range(data.num_documents or 0))
        return {number: key for number, key in found if key in ids}
    return ids_of(data, np.flatnonzero(np.concatenate(list(_masks_with(data, ids)))))


def _masks_with(data: TokenDataset, ids: Collection[str]) -> Iterator[np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted: Any = pa.array([bytes.fromhex(key) for key in ids], pa.binary(16))
    for batch in data.all_facts.batches(["id"]):
        yield np.asarray(pc.is_in(batch["id"], value_set=wanted))


def content_id(data: TokenDataset, number: int) -> str:
    """Return the id of a document as facts have it (docs/guides/facts.md), from its tokens."""
    ids = data.document(number)
    start = int(ids[0] == data.begin_token_id) if len(ids) else 0
    stop = len(ids) - int(ids[-1] == data.end_of_text_id) if len(ids) else 0
    return xxhash.xxh3_128_hexdigest(ids[start:stop].astype("<u4").tobytes())
