"""What a format is: a class that claims files, reads them and, for most, writes them.

`TokenFormat` is the Protocol that mypy checks. A format of single files is a `FileFormat`; one
whose index names the files of a folder is a `FolderFormat`. They inherit the answers that most
formats give, so that a format states only what is special. Code outside formats/ asks these
attributes and never compares the name of a format. All formats are listed in engine/detect.py.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tokenmill.base.strict_json import Reader
from tokenmill.errors import FormatError, MismatchError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.held_out import take
from tokenmill.formats.engine.writing import INDEX, OUR_KEY, Writer
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.token_file import Lazy, TokenFile, TokenFiles

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
NO_LIMIT = 2**62  # tokens


def token_dtype(value: object) -> np.dtype[Any]:
    """A dtype for token ids from a name such as "uint16"; anything but an integer is refused."""
    try:
        dtype = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in INTEGERS or dtype.newbyteorder("<") != dtype:
        known = ", ".join(INTEGERS)
        raise ValueError(f"dtype {value!r} is none of token ids (little-endian {known})")
    result: np.dtype[Any] = dtype.newbyteorder("<")
    return result


@dataclass(frozen=True)
class Ask:
    """What the caller knows that the files may not say."""

    dtype: np.dtype[Any] | None = None
    cache: ShardCache | None = None
    """Where compressed files may be unpacked; None: nowhere."""

    def agreed(self, dtype: np.dtype[Any], path: Path | str) -> np.dtype[Any]:
        """The dtype that a file states; an argument that says otherwise is refused."""
        if self.dtype is not None and self.dtype != dtype:
            asked = self.dtype.name
            raise MismatchError(
                f"{path} states that it holds {dtype.name}, but {asked} was asked for",
                hint="leave dtype out, or convert the data: "
                f"tokenmill convert SRC DST --to tokenmill --to_dtype {asked}",
            )
        return dtype


@dataclass(frozen=True)
class FoundData:
    """Some files of one format, as shards with what is known about their tokens."""

    format: str
    files: TokenFiles
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
    """Whether a manifest of ours names the files, with hashes and what they were made from."""
    ids_were_checked: bool = False
    """Whether the writer of these files is known to have compared every id with the vocabulary."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else the files say, for people: JSON values."""

    def with_files(self, files: Sequence[TokenFile]) -> "FoundData":
        return replace(self, files=TokenFiles.of(files))


@runtime_checkable
class TokenFormat(Protocol):
    """What may be asked of any format; the values here are the usual answers."""

    name: str
    """As callers write it: tokenmill.open(path, format=name)."""
    suffixes: tuple[str, ...] = ()
    """How the names of its token files end; a folder is searched for these."""
    header_marks: tuple[bytes, ...] = ()
    """First bytes of a file, so long that token ids do not show them by chance."""

    writer: type[Writer] | None = None
    """Writes one split. None: this format is only read."""
    written_suffixes: tuple[str, ...] = ()
    """How the names of all files end that it writes; nothing else is ever overwritten."""
    dtypes: tuple[str, ...] = ()
    """Types of token ids that can be written."""
    tokens_per_shard: int = NO_LIMIT
    """How many are written into a shard unless the caller says otherwise."""
    max_tokens_per_shard: int = NO_LIMIT
    is_indexed: bool = False
    """Whether its files say where documents end."""
    documents_by_id: bool = True
    """Whether documents must end with the end-of-text id, and have it nowhere else."""
    end_of_text_comes: str = "after"
    """Whether the end-of-text id is written `after` or `before` each document."""
    needs_tokenizer: bool = False
    """Whether the tokenizer is stored with the data, so that its vocabulary decides the dtype."""
    stores_tokenizer_name: bool = False
    compresses: bool = False
    """Whether its shards can be written compressed."""
    numbers_over_splits: bool = False
    """Whether the shards of val are numbered after those of train."""
    states_dtype: bool = True
    """Whether what was written says its dtype, so that it opens without being asked for it."""

    def header_bytes(self, first_bytes: bytes) -> int | None:
        """How long the header is that begins with these bytes; None: unknown, or not its own."""
        return None

    def tokens_of(self, index: Path, token_files: set[str]) -> Path | None:
        """The token file that `index` belongs to, if that is an index of this format."""
        return None

    def end_of_text_id_of(self, dtype: np.dtype[Any]) -> int | None:
        """The only end-of-text id that readers of files with this dtype know, if there is one."""
        return None

    def finish(self, folder: Path, writers: Mapping[str, Any], tokenizer: Any) -> None:
        """Write what is known only when all splits are written.

        `writers` are those of the splits, closed; `tokenizer` is one where `needs_tokenizer`.
        """
        return


class FileFormat(TokenFormat, Protocol):
    """A format in which a file, perhaps with an index beside it, can be read by itself."""

    @abstractmethod
    def claims(self, path: Path, first_bytes: bytes) -> bool:
        """Whether this is a file of this format; the formats before it did not claim it."""

    @abstractmethod
    def read(self, path: Path, ask: Ask) -> FoundData:
        """One file as a shard."""

    def found(
        self,
        path: Path,
        dtype: np.dtype[Any],
        num_tokens: int,
        file_bytes: int,
        offset: int = 0,
        ends: Lazy | None = None,
        **known: Any,
    ) -> FoundData:
        """What `read` returns; `known` are other fields of FoundData."""
        file = TokenFile(str(path), path.name, dtype, num_tokens, file_bytes, offset, ends=ends)
        return FoundData(self.name, TokenFiles([file]), **known)


class FolderFormat(TokenFormat, Protocol):
    """A format in which an index names the files of a folder."""

    @abstractmethod
    def claims_folder(self, folder: Path) -> bool:
        """Whether this folder is such a dataset."""

    @abstractmethod
    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        """The shards of a split, by the index."""


class SampleFormat(FolderFormat, Protocol):
    """A format of samples (documents, or rows of one length) in shards that `index.json` lists."""

    key: str
    """The field of the index that lists the shards."""
    dtypes: tuple[str, ...] = ("uint16", "uint32", "int32", "uint8", "int64", "uint64")
    tokens_per_shard: int = 1 << 25
    max_tokens_per_shard: int = 1 << 28
    is_indexed: bool = True
    documents_by_id: bool = False

    @abstractmethod
    def read_shards(
        self, root: untrusted.Root, index: Reader, entries: list[Reader], ask: Ask
    ) -> FoundData:
        """All shards, by their entries in the index."""

    def claims_folder(self, folder: Path) -> bool:
        path = folder / INDEX
        return path.is_file() and self.key in untrusted.read_json(path).names()

    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        path = folder / INDEX
        index = untrusted.read_json(path)
        entries = index.objects(self.key)
        if not entries:
            raise FormatError(
                f"{path} names no {self.key}", hint="nothing was written; write it again"
            )
        found = self.read_shards(untrusted.Root(folder, path), index, entries, ask)
        return found.with_files(take(found.files, split, folder))

    @staticmethod
    def samples_are_documents(index: Reader, lengths: np.ndarray) -> bool:
        """Whether samples are documents, or rows cut from a stream of them.

        Neither format says it. Projects that pack tokens write rows of one length, others do not.
        So samples of different lengths (`lengths` are those of the first shard) are documents;
        among rows, documents are known only by an end-of-text id. A dataset written by tokenmill
        says it in the index, under a key that other readers pass over.
        """
        if OUR_KEY in index.names():
            return index.object(OUR_KEY).text("samples", among=("documents", "rows")) == "documents"
        return len(lengths) < 2 or bool((lengths != lengths[0]).any())
