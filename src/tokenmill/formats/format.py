"""What a format is: a class that reads files and, for most, writes them.

They inherit the answers that most formats give, so that a format states only what is special. Code
outside formats/ asks these attributes and never compares the name of a format. All formats are
listed here by signs that are cheap to look at; a format's module is imported when it is needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.errors import MismatchError
from tokenmill.formats.untrusted import expect_size, whole_tokens
from tokenmill.reading.token_file import ColumnFile, Dtype, Lazy, TokenFile

if TYPE_CHECKING:
    from tokenmill.formats.writing import Writer
    from tokenmill.reading.shard_cache import ShardCache

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
NO_LIMIT = 2**62  # tokens


def token_dtype(value: object) -> Dtype:
    """Return the dtype of a name such as "uint16"; anything but an integer is refused."""
    try:
        dtype = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in INTEGERS or dtype.newbyteorder("<") != dtype:
        names = ", ".join(INTEGERS)
        raise ValueError(f"dtype {value!r} is not one of token ids (little-endian {names})")
    result: Dtype = dtype.newbyteorder("<")
    return result


@dataclass(frozen=True)
class Ask:
    """What the caller says about the files."""

    dtype: Dtype | None = None
    cache_dir: Any = None
    cache_bytes: int | None = None

    def agreed(self, dtype: Dtype, path: Path | str) -> Dtype:
        """Return the dtype that a file states; an argument that says otherwise is refused."""
        if self.dtype is not None and self.dtype != dtype:
            asked = self.dtype.name
            raise MismatchError(
                f"{path} states that it holds {dtype.name}, but {asked} was asked for",
                hint="leave dtype out, or convert the data: "
                f"tokenmill convert SRC DST --to tokenmill --to_dtype {asked}",
            )
        return dtype

    def cache(self) -> "ShardCache":
        """Return the cache into which files are fetched or unpacked."""
        from tokenmill.reading.shard_cache import ShardCache

        return ShardCache(self.cache_dir, self.cache_bytes)


@dataclass(frozen=True)
class FoundData:
    """Files of one format, with what they say about their tokens."""

    format: str
    files: tuple[TokenFile, ...]
    vocab_size: int | None = None
    end_of_text_id: int | None = None
    end_of_text_comes: str = "after"
    """Or `before` each document."""
    begin_token_id: int | None = None
    """The id that every document begins with, where the files say so."""
    tokenizer: str | None = None
    """A name that is bundled, so that loading it needs no network."""
    tokenizer_state: Lazy | None = None
    """Reads the bytes of a tokenizer_state.json; those that a manifest names are compared."""
    tokenizer_fingerprint: str | None = None
    has_manifest: bool = False
    """True if the manifest of a tokenmill dataset names the files, with their hashes."""
    facts: tuple[Any, ...] = ()
    """The `FactsFile` of each split that has one (reading/facts.py)."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else the files say, for users: JSON values."""

    def with_files(self, files: Iterable[TokenFile]) -> "FoundData":
        """Return the same with other files."""
        return replace(self, files=tuple(files))


class TokenFormat(ABC):
    """What may be asked of any format; the values here are the usual answers."""

    name: str
    writer: "type[Writer] | None" = None
    """Writes one split. None: this format is only read."""
    written_suffixes: tuple[str, ...] = ()
    """Endings of the names of all files that it writes; nothing else is ever overwritten."""
    dtypes: tuple[str, ...] = ()
    """Types of token ids that can be written."""
    tokens_per_shard: int = NO_LIMIT
    """Tokens that are written into a shard unless the caller says otherwise."""
    max_tokens_per_shard: int = NO_LIMIT
    is_indexed: bool = False
    """True if its files say where documents end."""
    documents_by_id: bool = True
    """True if documents must end with the end-of-text id, and have it nowhere else."""
    end_of_text_comes: str = "after"
    """`before` if the end-of-text id is written before each document."""
    needs_tokenizer: bool = False
    """True if the tokenizer is stored with the data, so that its vocabulary decides the dtype."""
    stores_tokenizer_name: bool = False
    compresses: bool = False
    """True if its shards can be written compressed."""
    numbers_over_splits: bool = False
    """True if the shards of val are numbered after those of train."""
    holds: tuple[str, ...] | None = ()
    """Names of the columns of tokens that have a place in it; None: any name."""
    keeps_facts: bool = False
    """True if it has a place for facts of documents."""
    states_dtype: bool = True
    """True if what was written says its dtype, so that it opens without being asked for it."""
    compares_itself: bool = False
    """True if its writer reads every shard back, since `tokenmill.open` does not read it."""

    def end_of_text_id_of(self, dtype: Dtype) -> int | None:
        """Return the only end-of-text id that readers of files with this dtype know."""
        return None


class FileFormat(TokenFormat):
    """A format in which a file, perhaps with an index next to it, can be read by itself."""

    @abstractmethod
    def read(self, path: Path, ask: Ask) -> FoundData:
        """Return one file as a shard."""

    def found(
        self,
        path: Path,
        dtype: Dtype,
        size: int,
        count: int | None = None,
        offset: int = 0,
        ends: Lazy | None = None,
        mask: Path | None = None,
        **facts: Any,
    ) -> FoundData:
        """Return what `read` returns; tokens must fill a file of `size` bytes from `offset` on.

        `count` is how many tokens there are, where the files say it; `facts` are other fields of
        FoundData. `mask` is the file, if it is there, that has a byte for each token: 1 if it is a
        target, else 0.
        """
        if count is None:
            count = whole_tokens(path, size - offset, dtype)
        else:
            expected = offset + count * dtype.itemsize
            expect_size(path, size, expected, f"its header ({count:,} tokens)")
        file = TokenFile(str(path), path.name, dtype, count, size, offset, ends=ends)
        if mask is not None and mask.is_file():
            expect_size(mask, mask.stat().st_size, count, f"{path.name} ({count:,} tokens)")
            values = TokenFile(str(mask), mask.name, np.dtype("u1"), count, count)
            file = replace(file, columns=(ColumnFile("loss", 8, values),))
        return FoundData(self.name, (file,), **facts)


class FolderFormat(TokenFormat):
    """A format in which an index names the files of a folder."""

    @abstractmethod
    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        """Return the shards of a split, by the index."""


OURS = "tokenmill"
SAMPLE_INDEX = "index.json"
LLMC_GPT2 = 20240520
LLMC_LLAMA3 = 20240801
NUMPY = b"\x93NUMPY"
MEGATRON = b"MMIDIDX\x00\x00"


@dataclass(frozen=True)
class FileSign:
    """How the files of one format are recognized."""

    name: str
    """As callers write it: tokenmill.open(path, format=name)."""
    suffixes: tuple[str, ...]
    """Endings of the names of its token files; a folder is searched for these."""
    first_bytes: tuple[bytes, ...] = ()
    by_name: tuple[str, ...] = ()
    """Endings of names that claim a file, once no format before this one did."""
    index_of: Mapping[str, str] = field(default_factory=dict)
    """Endings of the names of an index and of the token file that it belongs to."""

    def claims(self, path: Path, first_bytes: bytes) -> bool:
        """Return True if this is a file of this format; the formats before it did not claim it."""
        if first_bytes.startswith(self.first_bytes) or path.name.endswith(self.by_name):
            return True
        return path.suffix in self.suffixes and any(
            path.with_suffix(index).is_file() for index in self.index_of
        )


# In the order of asking: what has a magic number first, what only a name says last.
FILE_SIGNS = (
    FileSign(
        "llmc",
        (".bin",),
        first_bytes=(LLMC_GPT2.to_bytes(4, "little"), LLMC_LLAMA3.to_bytes(4, "little")),
    ),
    FileSign("npy", (".npy",), first_bytes=(NUMPY,)),
    FileSign("litpkds", (".bin",), first_bytes=(b"LITPKDS",)),
    FileSign("megatron", (".bin",), first_bytes=(MEGATRON, b"TNTIDX"), index_of={".idx": ".bin"}),
    FileSign(
        "datatrove",
        (".ds",),
        by_name=(".ds", ".ds.index", ".ds.metadata"),
        index_of={".ds.index": ".ds", ".ds.metadata": ".ds"},
    ),
    FileSign("modalities", (".pbin",), by_name=(".pbin",)),
    FileSign("dolma", (".npy",), by_name=(".npy",), index_of={".csv.gz": ".npy"}),
    FileSign("nanogpt", (".bin", ".raw"), by_name=(".bin", ".raw")),
)
FILE_FORMATS = tuple(sign.name for sign in FILE_SIGNS)
# The field of `index.json` that lists the shards.
SAMPLE_KEYS = {"mds": "shards", "litdata": "chunks"}
FORMATS = (OURS, *SAMPLE_KEYS, *FILE_FORMATS)
READ_ONLY = ("litpkds", "modalities")
_MODULES = {OURS: "ours"} | dict.fromkeys(READ_ONLY, "read_only")
WRITABLE = tuple(name for name in FORMATS if name not in READ_ONLY)
WRITE_ONLY = ("hf",)
INDEX_OF = {index: tokens for sign in FILE_SIGNS for index, tokens in sign.index_of.items()}
TOKEN_SUFFIXES = tuple({suffix for sign in FILE_SIGNS for suffix in sign.suffixes})


@cache
def load_format(name: str) -> Any:
    """Import the format of this name: a `FileFormat` or a `FolderFormat` (format.py)."""
    module = import_module(f"tokenmill.formats.{_MODULES.get(name, name)}")
    return getattr(module, name.capitalize())()


def format_to_write(name: str) -> "TokenFormat":
    """Return the format of this name; one that is unknown or only read is refused."""
    name = OURS if name == "ours" else name
    one_of("format to write", name, (*WRITABLE, *WRITE_ONLY))
    format: TokenFormat = load_format(name)
    return format
