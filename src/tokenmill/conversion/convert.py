"""convert(src, dst, to="megatron"): a dataset of any format as one of another.

Streamed in chunks, written into a folder beside `dst`, read back and compared, and only then
renamed: `dst` is whole and verified, or not there. A split with a name of its own (val_code) makes
each split a folder of its name, whatever the format.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tokenmill import dataset
from tokenmill.base.atomic import (
    is_temporary,
    make_folder,
    remove,
    replace_folder,
    sync_folder,
    write_atomically,
)
from tokenmill.base.descriptors import rename
from tokenmill.base.lock import hold_lock
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.conversion.conversion import CHUNK, Conversion
from tokenmill.dataset import TokenDataset, Where
from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.formats.format import WRITABLE, format_to_write, load_format
from tokenmill.reading.token_file import check_hash
from tokenmill.shards.card import repacked_card
from tokenmill.shards.manifest import (
    FILE_NAME,
    ColumnEntry,
    EndsEntry,
    Manifest,
    ShardEntry,
    SplitEntry,
    checked_compression,
    level_of,
)
from tokenmill.shards.verify import read_blocks, verify
from tokenmill.shards.writer import NewFile

CARD = "README.md"
E = TypeVar("E", ShardEntry, EndsEntry, ColumnEntry)


@dataclass(frozen=True)
class Converted:
    """What was written."""

    path: str
    format: str
    dtype: str
    splits: dict[str, tuple[int, int]]
    """Name -> tokens and shards."""


@takes_keywords_of(dataset.open, but=("path", "split"))
def convert(
    src: Where | list[Where],
    dst: Where,
    *,
    to: str | None = None,
    compress: str | None = None,
    decompress: bool = False,
    to_dtype: str | None = None,
    tokens_per_shard: int | None = None,
    add_end_of_text: bool = False,
    allow_lost_documents: bool = False,
    overwrite: bool = False,
    **how_to_open: Any,
) -> Converted:
    """Write the dataset at `src` to the new folder `dst` in the format `to`.

    `to_dtype` is the type of the written ids (by default the smallest that the vocabulary needs),
    `tokens_per_shard` how many are in a file. `add_end_of_text` writes the end-of-text id after
    documents that lack it; `allow_lost_documents` continues where some ends of documents are lost;
    `overwrite` replaces a folder of token files once the new one is verified.

    `compress="zstd:3"` writes compressed shards of ours, `decompress` plain ones; `to` may then be
    left out. Where `src` is ours as well and nothing else is asked for, all that its manifest says
    is kept, and with it the fingerprint: states of the one resume on the other.

    All other arguments say how to open `src`, as those of `tokenmill.open` do.
    """
    if compress is not None and decompress:
        raise ValueError("compress and decompress exclude each other; give one of them")
    is_repacked = compress is not None or decompress
    if to is None and not is_repacked:
        raise ValueError("the format to write is missing (to), for example megatron")
    compress = checked_compression(compress)
    to_format = format_to_write(to or "tokenmill")
    if compress is not None and not to_format.compresses:
        raise ValueError(f"compress={compress!r}: only our own format is written compressed")
    target = Path(dst)
    asked = (to_dtype, tokens_per_shard, add_end_of_text, allow_lost_documents)
    with interrupt_on_signals(), new_folder(target) as folder:
        refuse_to_replace(target, src, overwrite)
        options = (*asked, *how_to_open.values())
        is_plain = all(option is None or option is False for option in options)
        if is_repacked and is_plain and _is_ours(src):
            manifest = _repack(Path(str(src)), folder, compress)
            counts = {n: (s.num_tokens, len(s.shards)) for n, s in manifest.splits.items()}
            return Converted(str(target), to_format.name, manifest.dtype, counts)
        conversion = Conversion(_open_whole(src, **how_to_open), to_format, *asked, compress)
        done = conversion.write(folder)
        conversion.compare(folder)
        for each in [folder, *filter(Path.is_dir, folder.rglob("*"))]:
            sync_folder(each)
    return Converted(str(target), to_format.name, conversion.dtype.name, done)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, for this process alone, that takes the place of `target` at the end.

    If it is still empty then, nothing changes.
    After an error nothing of it is left. What a killed conversion left is removed by the next one;
    a dataset that it had moved aside, to replace it, is moved back first.
    """
    target = target.absolute()
    make_folder(target.parent)
    staging = target.with_name(f".{target.name}.convert")
    new = staging / "new"
    replaced = staging / "replaced"

    def clear() -> None:
        """Remove all that is here, but not the only copy of a dataset."""
        if replaced.exists() and not target.exists():
            rename(replaced, target)
        temporary = [path for path in staging.glob(".*.tmp") if is_temporary(path.name)]
        for path in (new, replaced, *temporary):
            remove(path)

    try:
        with hold_lock(staging / "lock", guards=target):
            clear()
            new.mkdir()
            try:
                yield new
                if any(new.iterdir()):
                    replace_folder(new, target, replaced)
            finally:
                with suppress(OSError):
                    clear()
    finally:
        with suppress(OSError):
            staging.rmdir()


def _is_ours(src: Where | list[Where]) -> bool:
    return isinstance(src, (str, os.PathLike)) and (Path(src) / FILE_NAME).is_file()


def _open_whole(src: Where | list[Where], **how_to_open: Any) -> TokenDataset:
    """All splits; documents end with the id of a tokenizer that was named, if that id occurs."""
    whole = dataset.open(src, "all", **how_to_open)
    if whole.end_of_text_id is not None or how_to_open.get("tokenizer") is None:
        return whole
    end_of_text_id = whole.tokenizer.end_of_text_id
    size = whole.num_tokens
    chunks = (whole.tokens(at, min(at + CHUNK, size)) for at in range(0, size, CHUNK))
    if not any((chunk == end_of_text_id).any() for chunk in chunks):
        return whole
    how_to_open["end_of_text"] = end_of_text_id
    return dataset.open(src, "all", **how_to_open)


def refuse_to_replace(target: Path, src: Where | list[Where], overwrite: bool) -> None:
    """Nothing but token files may be replaced, and not what is only read in part."""
    if target.exists() and not overwrite:
        raise FormatError(f"{target} exists already", hint="pass overwrite=True to replace it")
    sources = src if isinstance(src, list) else [src]
    for source in [os.path.realpath(each) for each in sources]:
        if target.resolve() in Path(source).parents:
            raise FormatError(
                f"{target} is to be replaced, but {source} is read from there",
                hint="write to another folder",
            )
    suffixes = {suffix for name in WRITABLE for suffix in load_format(name).written_suffixes}
    paths = sorted(target.rglob("*")) if target.is_dir() else [target]
    for path in filter(Path.is_file, paths):
        if path.suffix not in suffixes and path.name != CARD and not _are_facts(path):
            raise FormatError(
                f"{target} is not replaced: it holds {path.name}, which is no file of tokens",
                hint="write to another folder, or move that file away",
            )


def _are_facts(path: Path) -> bool:
    """Return True for the facts of documents in a tokenmill dataset; other tables may be text."""
    is_in_dataset = (path.parent.parent / FILE_NAME).is_file()
    return is_in_dataset and re.fullmatch(r"documents(_\d+)?\.parquet", path.name) is not None


def _repack(source: Path, folder: Path, compress: str | None) -> Manifest:
    """Write the shards of a tokenmill dataset compressed or plain; keep all that else is said."""
    manifest = Manifest.load(source)
    level = None if compress is None else level_of(compress)
    splits = {}
    for name, split in manifest.splits.items():
        shards = []
        for shard in split.shards:
            ends = _repack_file(source, folder, shard.ends, level)
            columns = shard.columns and tuple(
                _repack_file(source, folder, column, level) for column in shard.columns
            )
            tokens = _repack_file(source, folder, shard, level)
            shards.append(replace(tokens, ends=ends, columns=columns))
        splits[name] = SplitEntry.of(tuple(shards), split.facts)
    settings = {**manifest.settings, "compress": compress}
    made = replace(manifest, splits=splits, settings=settings)
    for entry in manifest.files_beside_shards:
        write_atomically(folder / entry.file, (source / entry.file).read_bytes())
    if (source / CARD).is_file():
        card = repacked_card((source / CARD).read_text("utf-8"), manifest, made)
        write_atomically(folder / CARD, card.encode())
    made.write(folder)
    for finding in verify(folder, full=True):
        raise CorruptShardError(f"what was written is not what was read: {finding}")
    return made


def _repack_file(source: Path, folder: Path, entry: E, level: int | None) -> E:
    with NewFile(folder, entry.file, durable=True, level=level) as file:
        for block in read_blocks(source, entry):
            file.write(memoryview(block))
        _, digest, packed = file.finish()
    check_hash(str(source / entry.on_disk.file), entry.xxh3_128, digest)
    return replace(entry, packed=packed)
