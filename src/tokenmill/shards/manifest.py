"""The manifest of a dataset: what it holds, file by file, and how it was made.

It is written last, so a folder without one is not a dataset. It is untrusted input: every field
is checked before anything is opened by it, and the sums in it must agree. It holds no clock, host
name, worker count or absolute path: equal inputs and settings give equal bytes.

docs/format.md is the specification; base/strict_json.py reads the JSON.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
import xxhash

from tokenmill.base.address import is_remote, join
from tokenmill.base.atomic import write_atomically
from tokenmill.base.hashing import regular
from tokenmill.base.strict_json import Reader, parse_object
from tokenmill.errors import FormatError, NotADatasetError, UnsupportedVersionError
from tokenmill.shards.entries import (
    PACKED_SUFFIX,
    EndsEntry,
    Entry,
    FileEntry,
    ShardEntry,
    SourceEntry,
    SplitEntry,
    TokenizerEntry,
)

FILE_NAME = "dataset_metadata.json"
PREPARATION_FOLDER = ".preparation"
FORMAT = "tokenmill"
FORMAT_VERSION = 1
MAX_BYTES = 256 << 20
ITEM_SIZE = {"uint16": 2, "uint32": 4}
_LAST_LINE = b"\n}\n"
E = TypeVar("E", bound=Entry)


def has_manifest(where: str | os.PathLike[str]) -> bool:
    """Return True if a manifest is in this folder or at this address."""
    if not is_remote(where):
        return (Path(where) / FILE_NAME).is_file()
    from tokenmill.stores import objects

    return objects.find(join(os.fspath(where), FILE_NAME)) is not None


def dtype_for(vocab_size: int) -> str:
    """The smallest stored type that holds every id: uint16 up to 65,536 ids, else uint32."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of `dataset_metadata.json`."""

    dtype: str
    tokenizer: TokenizerEntry
    tokens_per_shard: int
    splits: Mapping[str, SplitEntry]
    sources: tuple[SourceEntry, ...] = ()
    sources_file: FileEntry | None = None
    """Where `sources` are folders: the file that lists all inputs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file: the content, with its hash as the last field."""
        content = self._content()
        return content.removesuffix(_LAST_LINE) + _hash_field(xxhash.xxh3_128_hexdigest(content))

    @property
    def digest(self) -> str:
        """The hash that the file holds of itself."""
        return xxhash.xxh3_128_hexdigest(self._content())

    def _content(self) -> bytes:
        """Canonical JSON: fixed order of keys, UTF-8, a newline at the end; without the hash."""
        tree = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "dtype": self.dtype,
            "tokenizer": self.tokenizer.to_json(),
            "tokens_per_shard": self.tokens_per_shard,
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "sources": [source.to_json() for source in self.sources],
            **({"sources_file": self.sources_file.to_json()} if self.sources_file else {}),
            "settings": dict(self.settings),
            "accounts": dict(self.accounts),
        }
        return orjson.dumps(tree, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @property
    def is_packed(self) -> bool:
        """True if some of the files are compressed."""
        return any(
            shard.packed or shard.ends.packed
            for split in self.splits.values()
            for shard in split.shards
        )

    def write(self, folder: Path | str) -> None:
        """Check, then put the manifest into its folder, whole or not at all."""
        data = self.to_bytes()
        Manifest.parse(data, where=FILE_NAME)
        write_atomically(Path(folder) / FILE_NAME, data)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Manifest":
        """Read and check the manifest of this folder, or of the dataset at this address."""
        if is_remote(folder):
            if (found := cls.find_at(os.fspath(folder))) is None:
                raise NotADatasetError(f"there is no {join(os.fspath(folder), FILE_NAME)}")
            return found
        path = Path(folder) / FILE_NAME
        try:
            with open(path, "rb", opener=regular) as file:
                data = file.read(min(os.fstat(file.fileno()).st_size, MAX_BYTES) + 1)
        except (FileNotFoundError, NotADirectoryError):
            raise _not_a_dataset(Path(folder)) from None
        return cls.parse(data, where=str(path))

    @classmethod
    def find_at(cls, address: str) -> "Manifest | None":
        """The manifest of the dataset at an address, if there is one."""
        from tokenmill.stores import objects

        where = join(address, FILE_NAME)
        data = objects.read_all(where, at_most=MAX_BYTES)
        return None if data is None else cls.parse(data, where=where)

    @classmethod
    def parse(cls, data: bytes, *, where: str = FILE_NAME) -> "Manifest":
        """Check these bytes; `where` is what errors call them."""
        if len(data) > MAX_BYTES:
            raise FormatError(f"{where} is larger than {MAX_BYTES >> 20} MB, so it is no manifest")
        top = Reader(parse_object(data, where), where)
        if top.text("format") != FORMAT:
            raise FormatError(f"{where} says format {top.text('format')!r}, not {FORMAT!r}")
        version = top.count("format_version", least=1)
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(
                f"{where} is of format version {version}; this tokenmill reads {FORMAT_VERSION}",
                hint="pip install --upgrade tokenmill",
            )
        _check_own_hash(data, top.hex128("xxh3_128"), where)
        dtype = top.text("dtype", among=ITEM_SIZE)
        tokens_per_shard = top.count("tokens_per_shard", least=1)
        splits = top.object("splits")
        sizes = (ITEM_SIZE[dtype], tokens_per_shard)
        found = {
            splits.checked_name(name): _read_split(splits.object(name), *sizes)
            for name in splits.fields
        }
        manifest = cls(
            dtype=dtype,
            tokenizer=_read_tokenizer(top.object("tokenizer"), dtype),
            tokens_per_shard=tokens_per_shard,
            splits=found,
            sources=tuple(_read_source(source) for source in top.objects("sources")),
            sources_file=_read(FileEntry, top.object("sources_file"))
            if "sources_file" in top.names()
            else None,
            settings=top.free_object("settings"),
            accounts=top.free_object("accounts"),
        )
        top.no_more()
        _check_no_file_comes_twice(manifest, where)
        return manifest

    @property
    def files_beside_shards(self) -> list[FileEntry]:
        """The stored tokenizer, and the list of sources if there is one."""
        return [self.tokenizer.state, *([self.sources_file] if self.sources_file else [])]

    def files(self) -> list[str]:
        """Every file that is there by the manifest, in order; the manifest itself is not one."""
        names = [entry.file for entry in self.files_beside_shards]
        for split in self.splits.values():
            names += [file.file for shard in split.shards for file in shard.files]
        return names


def _check_own_hash(data: bytes, stated: str, where: str) -> None:
    """Refuse a manifest whose bytes are not those that its hash was made of."""
    hash_field = _hash_field(stated)
    found = xxhash.xxh3_128(memoryview(data)[: len(data) - len(hash_field)])
    found.update(_LAST_LINE)
    if not data.endswith(hash_field) or found.hexdigest() != stated:
        raise FormatError(
            f"{where} was changed after it was written: its hash is {found.hexdigest()}, but it "
            f"states {stated}",
            hint="fetch this file again, or prepare the dataset again",
        )


def _hash_field(digest: str) -> bytes:
    """Return the end of a manifest, from the comma before its last field on."""
    return f',\n  "xxh3_128": "{digest}"'.encode() + _LAST_LINE


# Fields of entries that are not counts.
_TEXTS = {
    "file": Reader.file,
    "name": Reader.text,
    "xxh3_128": Reader.hex128,
    "fingerprint": Reader.hex128,
}


def _read(kind: type[E], fields: Reader, **inner: Any) -> E:
    """An entry field by field, so that an error names the field; `inner` entries are given."""
    values = {
        name: inner[name]
        if name in inner
        else _TEXTS.get(name, Reader.count)(fields, name.removeprefix("num_"))
        for name in kind.__slots__
    }
    fields.no_more()
    return kind(**values)


def _read_tokenizer(fields: Reader, dtype: str) -> TokenizerEntry:
    tokenizer = _read(
        TokenizerEntry,
        fields,
        state=_read(FileEntry, fields.object("state")),
        begin_token_id=fields.count("begin_token_id")
        if "begin_token_id" in fields.names()
        else None,
    )
    end, vocab_size = tokenizer.end_of_text_id, tokenizer.vocab_size
    begin = tokenizer.begin_token_id
    if begin is not None and (begin >= vocab_size or begin == end):
        expected = f"less than vocab_size {vocab_size} and another than end_of_text_id"
        raise fields.wrong("begin_token_id", begin, expected)
    if end >= vocab_size:
        raise fields.wrong("end_of_text_id", end, f"less than vocab_size {vocab_size}")
    if vocab_size > 256 ** ITEM_SIZE[dtype]:
        raise fields.wrong("vocab_size", vocab_size, f"small enough for dtype {dtype}")
    return tokenizer


def _read_source(fields: Reader) -> SourceEntry:
    num_files = fields.count("files", least=1) if "files" in fields.names() else None
    return _read(SourceEntry, fields, num_files=num_files)


def _read_split(fields: Reader, item_size: int, tokens_per_shard: int) -> SplitEntry:
    entries = fields.objects("shards")
    shards = tuple(_read_shard(entry, item_size, tokens_per_shard) for entry in entries)
    split = _read(SplitEntry, fields, shards=shards)
    sums = SplitEntry.of(shards)
    for key in ("tokens", "documents"):
        stated = getattr(split, f"num_{key}")
        summed = getattr(sums, f"num_{key}")
        if stated != summed:
            raise fields.wrong(key, stated, f"{summed}, the sum of its shards")
    return split


def _read_shard(fields: Reader, item_size: int, tokens_per_shard: int) -> ShardEntry:
    index = fields.object("ends")
    ends = _read(EndsEntry, index, packed=_read_packed(index))
    shard = _read(ShardEntry, fields, ends=ends, packed=_read_packed(fields))
    tokens, documents = shard.num_tokens, ends.num_documents
    if not 1 <= tokens <= tokens_per_shard:
        most = f"at most tokens_per_shard {tokens_per_shard}"
        raise fields.wrong("tokens", tokens, most if tokens else "at least 1")
    if shard.num_bytes != tokens * item_size:
        raise fields.wrong("bytes", shard.num_bytes, f"{item_size} x {tokens} tokens")
    if ends.num_bytes != 8 * documents:
        raise index.wrong("bytes", ends.num_bytes, f"8 x {documents} documents")
    if documents > tokens:
        raise index.wrong("documents", documents, f"at most one for each of {tokens}")
    return shard


def _read_packed(fields: Reader) -> FileEntry | None:
    if "packed" not in fields.fields:
        return None
    packed = fields.object("packed")
    entry, of = _read(FileEntry, packed), fields.file("file")
    if entry.file != of + PACKED_SUFFIX:
        raise packed.wrong("file", entry.file, of + PACKED_SUFFIX)
    return entry


def _check_no_file_comes_twice(manifest: Manifest, where: str) -> None:
    # Without regard to case: on some disks `A.bin` and `a.bin` are one file.
    seen = {FILE_NAME.lower()}
    for name in manifest.files():
        if name.lower() in seen:
            raise FormatError(f"{where} names the file {name!r} twice")
        seen.add(name.lower())


def _not_a_dataset(folder: Path) -> NotADatasetError:
    if not folder.exists():
        return NotADatasetError(f"{folder} does not exist")
    if not folder.is_dir():
        return NotADatasetError(f"{folder} is not a folder, so it is no dataset of tokenmill")
    hint = "tokenmill prepare INPUT... -o OUT makes a dataset"
    if (folder / PREPARATION_FOLDER).is_dir():
        hint = (
            "its preparation was stopped before it was done; "
            "the same `tokenmill prepare` command resumes it"
        )
    return NotADatasetError(f"{folder} has no {FILE_NAME}", hint=hint)
