"""tokenmill's own datasets: a manifest that names every shard, its index, sizes and hashes.

Opening compares the size of each file with the manifest. remote.py opens a dataset in a store.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import xxhash

from tokenmill.base.hashing import regular
from tokenmill.base.human import plural
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import OURS, Ask, FolderFormat, FoundData
from tokenmill.formats.held_out import ALL
from tokenmill.reading.token_file import (
    FRAMED,
    ColumnFile,
    Lazy,
    ManifestHashes,
    Packed,
    TokenFile,
    check_hash,
)
from tokenmill.shards.manifest import (
    FILE_NAME,
    ColumnEntry,
    EndsEntry,
    FactsEntry,
    FileEntry,
    Manifest,
    NamedFile,
    ShardEntry,
)

if TYPE_CHECKING:
    from tokenmill.formats.writing import Writer


VERSION_FOLDER = re.compile(r"^v-[0-9a-f]{16}/")
"""The folder of a dataset that replaced another in a store; no part of the names of shards."""


class Tokenmill(FolderFormat):
    """A folder with a manifest, or one whose preparation is not done."""

    name = OURS
    written_suffixes = (".bin", ".ends", ".json", ".zst")
    dtypes = ("uint16", "uint32")
    tokens_per_shard = 10_000_000
    is_indexed = True
    needs_tokenizer = True
    compresses = True
    numbers_over_splits = True
    holds = None
    keeps_facts = True

    @property
    def writer(self) -> "type[Writer]":  # type: ignore[override]
        from tokenmill.formats.ours_writer import OursWriter

        return OursWriter

    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        root = Folder(folder, folder / FILE_NAME)
        return describe(Manifest.load(folder), folder, split, ask, root)


def describe(
    manifest: Manifest, where: Path | str, split: str | None, ask: Ask, folder: "Folder"
) -> FoundData:
    """Return the shards of a split, and what the manifest says about their tokens."""
    dtype = ask.agreed(np.dtype(manifest.dtype).newbyteorder("<"), where)
    files = []
    facts = []
    for name in _choose_splits(manifest, split, where):
        if (entry := manifest.splits[name].facts) is not None:
            from tokenmill.reading.facts import FactsFile

            opens = folder.facts(folder.path(entry.file, entry.num_bytes), entry)
            facts.append(FactsFile(name, entry.num_documents, entry.xxh3_128, opens))
        for shard in manifest.splits[name].shards:
            tokens = shard.on_disk
            ends = shard.ends.on_disk
            file = TokenFile(
                folder.path(tokens.file, tokens.num_bytes),
                VERSION_FOLDER.sub("", shard.file),
                dtype,
                shard.num_tokens,
                shard.num_bytes,
                ends=folder.ends(folder.path(ends.file, ends.num_bytes), shard.ends),
                hashes=ManifestHashes(shard.xxh3_128, shard.ends.xxh3_128),
                former=shard.former,
                blocks=folder.blocks(shard),
                split=name,
                packed=packed(shard),
                columns=tuple(_column(entry, folder) for entry in shard.columns or ()),
            )
            files.append(file)
    if not files:  # a split without shards is one file without tokens
        files = [TokenFile("", "(no shards)", dtype, 0, 0, ends=untrusted.ends_file("", 0))]
    tokenizer = manifest.tokenizer
    details = {"tokenizer": tokenizer.name, "splits": list(manifest.splits)}
    if any(file.packed for file in files):
        plain = sum(file.file_bytes for file in files)
        there = sum(file.disk_bytes for file in files)
        details["compressed"] = f"{there:,} bytes on disk, {there / plain:.2f} of the plain size"
    if columns := files[0].columns:
        details["columns"] = ", ".join(f"{c.name} ({plural(c.bits, 'bit')})" for c in columns)
    if facts:
        details["facts"] = f"of {plural(sum(kept.num_documents for kept in facts), 'document')}"
    if manifest.forgotten is not None:
        details["forgotten"] = f"some documents, see {manifest.forgotten.file}"
    state = None
    if (stored := tokenizer.state) is not None:
        state = folder.state(folder.path(stored.file, stored.num_bytes), stored)
    return FoundData(
        OURS,
        tuple(files),
        vocab_size=tokenizer.vocab_size,
        end_of_text_id=tokenizer.end_of_text_id,
        begin_token_id=tokenizer.begin_token_id,
        tokenizer_state=state,
        tokenizer_fingerprint=tokenizer.fingerprint,
        has_manifest=True,
        facts=tuple(facts),
        details=details,
    )


def _choose_splits(manifest: Manifest, asked: str | None, where: object) -> list[str]:
    """Return the split that was asked for; without one, train, or the only split there is."""
    names = list(manifest.splits)
    if asked == ALL or (asked is None and len(names) < 2):
        return names
    split = asked or "train"
    if split in names:
        return [split]
    raise FormatError(
        f"{where} has no {split} split; it has {', '.join(names)}",
        hint="to hold out a hundredth of its documents, prepare it again: "
        "tokenmill prepare INPUT... -o OUTPUT --val_fraction 0.01"
        if split == "val"
        else "open one of these; `prepare --val_input NAME=FILE` makes validation sets with names",
    )


def _column(entry: ColumnEntry, folder: "Folder") -> ColumnFile:
    """Return a column as the reader of its bytes needs it."""
    path = folder.path(entry.on_disk.file, entry.on_disk.num_bytes)
    name = VERSION_FOLDER.sub("", entry.file)
    size = entry.num_bytes
    hashes = ManifestHashes(entry.xxh3_128, "")
    about: dict[str, Any] = {"hashes": hashes, "former": entry.former, "packed": packed(entry)}
    file = TokenFile(path, name, np.dtype("u1"), size, size, **about)
    return ColumnFile(entry.name, entry.bits, file)


def packed(entry: NamedFile) -> Packed | None:
    """Return how a compressed file is stored; None for a plain one."""
    file = entry.packed
    return None if file is None else Packed(file.num_bytes, FRAMED, file.xxh3_128)


class Folder(untrusted.Root):
    """A dataset on a disk: sizes are compared when it is opened."""

    def blocks(self, shard: ShardEntry) -> Lazy | None:
        """Return what loads the hashes of the blocks of a shard; None where nothing does."""
        return None

    def ends(self, path: str, entry: EndsEntry) -> Lazy:
        """Return what loads where documents end in a shard."""
        if entry.packed is None:
            return untrusted.ends_file(path, entry.num_documents)
        sizes = (entry.num_bytes, entry.packed.num_bytes)
        return Lazy(unpack_ends, (path, *sizes), entry.num_documents, path)

    def facts(self, path: str, entry: FactsEntry) -> Lazy:
        """Return what opens the facts of a split."""
        return Lazy(open_regular, (path,), file=path)

    def state(self, path: str, entry: FileEntry) -> Lazy:
        """Return what reads the stored tokenizer."""
        return Lazy(read_hashed, (path, entry.xxh3_128), file=path)


def open_regular(path: str) -> BinaryIO:
    """Open a file of the dataset."""
    return open(path, "rb", opener=regular)


def read_hashed(path: str, digest: str) -> bytes:
    """Return all bytes of a small file, which must have this hash."""
    data = untrusted.read_whole(Path(path))
    check_hash(path, digest, xxhash.xxh3_128_hexdigest(data))
    return data


def unpack_ends(path: str, num_bytes: int, packed_bytes: int) -> np.ndarray:
    """Return where documents end in a shard, from a compressed index: int64."""
    from tokenmill.reading.frames import open_frames

    return np.frombuffer(b"".join(open_frames(path, num_bytes, packed_bytes)), "<i8")
