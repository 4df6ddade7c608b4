"""What a dataset that is added to holds already: its lines or documents, hashed again.

No index of hashes is kept with a dataset (it would be a quarter of its size); they are computed
from the shards, which are only read.
"""

from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import BadInputError, MismatchError
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.lines import RunWriter
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.shards.manifest import Manifest, Shard
from tokenmill.text.cleaning.dedup import hash_all
from tokenmill.text.cleaning.line_work import find_lines, lines_that_count
from tokenmill.tokens.tokenizer import Tokenizer

TOKENS_AT_ONCE = 1 << 20
PROBE = "A line of text,\twith  blanks \n\n and \u00e9\u4e2d.\n".encode()


def shards_of(manifest: Manifest | None) -> list[tuple[str, int]]:
    """(split, place in it) of every shard that is there; each is a run before those of ours."""
    if manifest is None:
        return []
    return [
        (name, at) for name, split in manifest.splits.items() for at in range(len(split.shards))
    ]


def check_gives_text_back(tokenizer: Tokenizer) -> None:
    """Refuse to compare lines through a tokenizer that does not decode to the text it was given."""
    try:
        ids, _ = tokenizer.encode_batch([PROBE])
    except BadInputError:
        return  # it refuses what it cannot give back
    if tokenizer.decode(ids) != PROBE:
        raise MismatchError(
            f"the tokenizer {tokenizer.name} does not give back the text it encoded, so lines "
            "that are in the dataset already cannot be known",
            hint="add with --dedup documents or --no_dedup, or prepare all inputs together",
        )


@leaves_receipt(lambda _, split, shard, number: ("lines", str(number)))
def hash_existing_lines(out_dir: str, split: str, shard: int, number: int) -> dict[str, Any]:
    """Task: hash the lines of the documents that end in one shard of the dataset."""
    plan = load_plan(out_dir)
    check_gives_text_back(plan.tokenizer)
    return _hash_shard(plan, "lines", split, shard, number)


@leaves_receipt(lambda _, split, shard, number: ("documents", str(number)))
def hash_existing_documents(out_dir: str, split: str, shard: int, number: int) -> dict[str, Any]:
    """Task: hash the documents that end in one shard of the dataset."""
    return _hash_shard(load_plan(out_dir), "documents", split, shard, number)


def _hash_shard(plan: Plan, stage: str, split: str, shard: int, number: int) -> dict[str, Any]:
    shards = Manifest.load(plan.workspace.out_dir).splits[split].shards
    hash_batch = _hash_documents if stage == "documents" else _hash_lines
    with RunWriter(plan.workspace, stage, str(number)) as writer:
        documents = _documents(plan.workspace.out_dir, shards, shard, plan.dtype)
        for batch in _batches(documents):
            hashes = hash_batch(plan, batch)
            writer.add(hashes, np.zeros(len(hashes), np.uint32))
        return writer.finish()


def _batches(documents: Iterator[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Many documents at a time, or one that is long."""
    batch: list[np.ndarray] = []
    tokens = 0
    for ids in documents:
        batch.append(ids)
        tokens += len(ids)
        if tokens >= TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def _hash_documents(plan: Plan, batch: list[np.ndarray]) -> np.ndarray:
    return hash_all(_text_ids(plan, ids).astype("<u4").tobytes() for ids in batch)


def _hash_lines(plan: Plan, batch: list[np.ndarray]) -> np.ndarray:
    """The lines of all these documents."""
    lines = find_lines([plan.tokenizer.decode(_text_ids(plan, ids)) for ids in batch])
    counts = lines_that_count(lines, plan.settings.dedup_min_chars, plan.settings.long_line)
    return hash_all(compress(lines.all(), counts))


def _text_ids(plan: Plan, ids: np.ndarray) -> np.ndarray:
    """Without end-of-text, which a document lacks that the held-out end cut in two."""
    return ids[:-1] if ids[-1] == plan.tokenizer.end_of_text_id else ids


def _documents(
    folder: Path, shards: tuple[Shard, ...], at: int, dtype: np.dtype[Any]
) -> Iterator[np.ndarray]:
    """The ids of every document that ends in a shard, whatever shards it began in."""
    tokens = _tokens(folder, shards[at], dtype)
    ends = np.fromfile(folder / shards[at].ends.file, "<u8").astype(np.int64)
    if not len(ends):
        return
    before: list[np.ndarray] = []
    for earlier in reversed(shards[:at]):
        begun = _tokens(folder, earlier, dtype)
        last = np.fromfile(folder / earlier.ends.file, "<u8")[-1:]
        before.insert(0, begun[int(last[0]) if len(last) else 0 :])
        if len(last):
            break
    yield np.concatenate([*before, tokens[: ends[0]]])
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        yield tokens[start:stop]


def _tokens(folder: Path, shard: Shard, dtype: np.dtype[Any]) -> np.ndarray:
    return np.memmap(folder / shard.file, dtype, mode="r", shape=(shard.tokens,))
