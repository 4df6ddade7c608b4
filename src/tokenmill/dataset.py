"""open(path) -> TokenDataset: any project's token files as one axis of tokens.

A split is one axis of `num_tokens` tokens over all its shards, in the order of their names. Opening
costs a stat (and for formats with a header, one small read) of each shard; tokens are mapped or
read when they are asked for (tokenfiles/token_file.py), documents likewise
(tokenfiles/document_index.py).

    data = tokenmill.open("data/corpus", split="train")
    data.tokens(0, 1024)                  # a copy, in the stored dtype, across shard edges
    data.document(7)                      # the tokens of one document
    data.decode(data.document(7))         # its text
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import TokenizerMismatchError, TokenmillError
from tokenmill.formats.engine.detect import detect
from tokenmill.formats.engine.format import Ask, FoundData, token_dtype
from tokenmill.formats.engine.held_out import check_split
from tokenmill.formats.ours import read_bucket
from tokenmill.storage import is_remote
from tokenmill.tokenfiles.array_reader import MemoryReader
from tokenmill.tokenfiles.data_fingerprint import fingerprint
from tokenmill.tokenfiles.document_index import (
    IndexedDocuments,
    ScannedDocuments,
    unknown_documents,
)
from tokenmill.tokenfiles.remote_shards import CachedReader
from tokenmill.tokenfiles.shard_cache import ShardCache
from tokenmill.tokenfiles.token_file import BACKENDS, Lazy, ShardReader, TokenFile

Where = str | os.PathLike[str]


def open(
    path: Where | Sequence[Where],
    split: str | None = "train",
    *,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    backend: str = "mmap",
    tokenizer: Any = None,
    end_of_text_id: int | None = None,
    end_of_text_comes: str | None = None,
    cache_dir: Where | None = None,
    cache_bytes: int | None = None,
    verify: bool = False,
) -> "TokenDataset":
    """Open token files as they are: a dataset of ours, a folder, a file, a glob or a list.

    The format is told by content; `dtype` is needed only where no file states it. `split="val"` is
    held out by the rule of the format (folders, names, else the last shard, else the last tenth),
    `split=None` is everything. `tokenizer` (a name or an object) is for decoding data that does not
    name its own; `end_of_text_id` says where documents end in data that has no index.

    A dataset at `s3://bucket/...` is fetched shard by shard, when tokens are first needed, into
    `cache_dir` (the user's cache folder), of which at most `cache_bytes` (16 GiB) are used.

    `verify=True` compares every shard with its hash in the manifest when it is first touched, and
    raises CorruptShardError for one that was damaged, or swapped with another; each shard is then
    read once more than needed. Only our own format has such hashes. What comes from a bucket is
    always compared. `tokenmill verify --full` does it for all shards at once.
    """
    check_split(split)
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; known are: {', '.join(BACKENDS)}")
    if end_of_text_comes not in (None, "after", "before"):
        raise ValueError(f"end_of_text_comes {end_of_text_comes!r}; known are: 'after', 'before'")
    ask = Ask(None if dtype is None else token_dtype(dtype))
    reader: ShardReader | None = None
    if isinstance(path, str) and is_remote(path):
        cache = ShardCache(cache_dir, cache_bytes)
        found = read_bucket(path, split, format, ask, cache)
        reader = CachedReader(found.files, cache, backend=backend)
    elif cache_dir is not None or cache_bytes is not None:
        raise ValueError("cache_dir and cache_bytes are for datasets at s3://bucket/...")
    else:
        found = detect(path, split, format=format, ask=ask)
        if verify:
            _check_that_hashes_are_there(found, path)
            reader = ShardReader(found.files, backend=backend, verify=True)
    shown = os.fspath(path) if isinstance(path, (str, os.PathLike)) else f"{len(path)} paths"
    return TokenDataset(
        found,
        path=shown,
        split=split,
        backend=backend,
        tokenizer=tokenizer,
        end_of_text_id=end_of_text_id,
        end_of_text_comes=end_of_text_comes,
        reader=reader,
    )


def _check_that_hashes_are_there(found: FoundData, path: object) -> None:
    if any(file.hashes is None for file in found.files):
        raise ValueError(
            f"verify=True needs a manifest with hashes, and {path} ({found.format}) has none\n\n"
            "hint: leave verify out, or convert: tokenmill convert SRC DST --to tokenmill"
        )


def from_array(
    ids: npt.ArrayLike,
    *,
    document_ends: npt.ArrayLike | None = None,
    vocab_size: int | None = None,
    end_of_text_id: int | None = None,
    end_of_text_comes: str | None = None,
    tokenizer: Any = None,
) -> "TokenDataset":
    """Tokens in memory as a dataset: for tests, notebooks and small data.

    `document_ends` are positions in tokens, exclusive, as in an `.ends` file.
    """
    array = np.ascontiguousarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise ValueError(f"ids must be a 1-D array of integers, not {array.ndim}-D {array.dtype}")
    array = array.view()
    array.flags.writeable = False
    ends = None
    if document_ends is not None:
        table = np.asarray(document_ends, dtype=np.int64).reshape(-1)
        ends = Lazy(_given, (table,), len(table))
    digest = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
    file = TokenFile(
        "", "(memory)", array.dtype, len(array), array.nbytes, ends=ends, digest=digest
    )
    found = FoundData("array", (file,), vocab_size=vocab_size)
    return TokenDataset(
        found,
        path="(memory)",
        split=None,
        backend="memory",
        tokenizer=tokenizer,
        end_of_text_id=end_of_text_id,
        end_of_text_comes=end_of_text_comes,
        reader=MemoryReader(found.files, array),
    )


def _given(table: np.ndarray) -> np.ndarray:
    return table


@dataclass(frozen=True, slots=True)
class Shard:
    """One file (or the part of it in this split) and its place on the axis."""

    file: str
    num_tokens: int
    start: int


class TokenDataset:
    """A split of token files as one axis of tokens; see the module for an example."""

    def __init__(
        self,
        found: FoundData,
        *,
        path: str,
        split: str | None,
        backend: str,
        tokenizer: Any = None,
        end_of_text_id: int | None = None,
        end_of_text_comes: str | None = None,
        reader: ShardReader | None = None,
    ) -> None:
        self._found = found
        self.path = path
        self.split = split
        self.format = found.format
        self.dtype: np.dtype[Any] = found.files[0].dtype
        if end_of_text_id is None:
            end_of_text_id = found.end_of_text_id
        self.end_of_text_id: int | None = end_of_text_id
        if end_of_text_id is not None:
            end_of_text_comes = end_of_text_comes or found.end_of_text_comes or "after"
        self.end_of_text_comes = end_of_text_comes
        # Samples with headers between the tokens cannot be one mapped run: they are read.
        scattered = any(file.pieces is not None for file in found.files)
        self.backend = "pread" if scattered else backend
        self.shard_starts: np.ndarray = np.cumsum(
            [0, *(file.num_tokens for file in found.files)], dtype=np.int64
        )
        self.num_tokens = int(self.shard_starts[-1])
        self.shards: Sequence[Shard] = [
            Shard(file.name, file.num_tokens, start)
            for file, start in zip(found.files, self.shard_starts.tolist(), strict=False)
        ]
        self._reader = reader or ShardReader(found.files, backend=self.backend)
        self._tokenizer = tokenizer
        self._loaded: Any = None
        self._documents: IndexedDocuments | ScannedDocuments | None = None
        self._fingerprint: str | None = None

    def __repr__(self) -> str:
        return (
            f"<TokenDataset {self.path} ({self.format}) split={self.split!r}: "
            f"{self.num_tokens:,} tokens {self.dtype.name} in {len(self.shards):,} shards>"
        )

    def __getstate__(self) -> dict[str, Any]:
        # Paths and settings travel; what is open, counted or loaded does not.
        return {**self.__dict__, "_loaded": None, "_documents": None}

    @property
    def details(self) -> dict[str, Any]:
        """What else the files say about themselves, for people: JSON values."""
        return self._found.details

    @property
    def has_manifest(self) -> bool:
        """Whether a manifest of ours names the files, with hashes and what they were made from."""
        return self._found.has_manifest

    @property
    def files(self) -> Sequence[TokenFile]:
        """Where each shard lies on disk."""
        return self._found.files

    @property
    def fingerprint(self) -> str:
        """Equal for a copy elsewhere, another for other tokens; worked out when first asked for."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.format, self.dtype, self._found.files)
        return self._fingerprint

    @property
    def vocab_size(self) -> int | None:
        """Ids are below this, where the data or the tokenizer says so."""
        found = self._found
        if found.vocab_size is not None or (self._tokenizer or found.tokenizer_state) is None:
            return found.vocab_size
        return int(self.tokenizer.vocab_size)

    @property
    def max_open(self) -> int:
        """How many shards are kept mapped or open at a time."""
        return self._reader.max_open

    def of_files(self, files: Sequence[TokenFile], split: str | None) -> "TokenDataset":
        """The same dataset with only these of its files."""
        return TokenDataset(
            self._found.with_files(list(files)),
            path=self.path,
            split=split,
            backend=self.backend,
            tokenizer=self._tokenizer,
            end_of_text_id=self.end_of_text_id,
            end_of_text_comes=self.end_of_text_comes,
            reader=self._reader.of(files),
        )

    def array(self, i: int) -> np.ndarray:
        """Shard i as a read-only 1-D array: a view of its map (a copy with `pread`)."""
        return self._reader.array(i)

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens of shard i, from `offset` on, until the 1-D array `out` is full."""
        self._reader.read_into(i, offset, out)

    def expect(self, positions: np.ndarray) -> None:
        """Tokens at these positions will be asked for soon, in this order; remote shards come."""
        if isinstance(self._reader, CachedReader):
            shards = np.searchsorted(self.shard_starts, positions, side="right") - 1
            self._reader.expect(list(dict.fromkeys(shards.tolist())))

    def tokens(self, start: int, stop: int) -> np.ndarray:
        """A copy of the tokens from start to stop, in the stored dtype, across shard edges."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of a dataset of {self.num_tokens} tokens")
        out = np.empty(stop - start, self.dtype)
        i = int(np.searchsorted(self.shard_starts, start, side="right")) - 1
        done = 0
        while done < len(out):
            inside = start + done - int(self.shard_starts[i])
            take = min(len(out) - done, self.shards[i].num_tokens - inside)
            self._reader.read_into(i, inside, out[done : done + take])
            done += take
            i += 1
        return out

    @property
    def num_documents(self) -> int | None:
        """Documents in this split, or None where only a scan of all tokens could tell."""
        return self._index().count if self.has_index else None

    @property
    def num_empty_documents(self) -> int:
        """Documents without a token, which only an index can hold. Reads the whole index."""
        index = self._index() if self.has_index else None
        return index.num_empty() if isinstance(index, IndexedDocuments) else 0

    def document(self, i: int) -> np.ndarray:
        """The tokens of document i, in the stored dtype."""
        return self.tokens(*self.document_range(i))

    def document_range(self, i: int) -> tuple[int, int]:
        """First token of document i, and the one after its last."""
        count = self.num_documents
        if i < 0 or (count is not None and i >= count):
            raise IndexError(f"document {i} of a dataset of {count} documents")
        return self._index().range(i)

    def document_at(self, position: int) -> int:
        """The document that holds the token at this position."""
        if not 0 <= position < self.num_tokens:
            raise IndexError(f"token {position} of a dataset of {self.num_tokens} tokens")
        return self._index().at(position)

    def document_ends(self, start: int, stop: int) -> np.ndarray:
        """Positions e with start < e <= stop where a document ends: int64, sorted, each once."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of a dataset of {self.num_tokens} tokens")
        return self._index().ends(start, stop)

    def document_ends_in_rows(
        self, starts: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same by the index, for rows of start .. start+length-1: numbers of rows, and ends.

        Ends are such that start < e < start + length; rows come in no order.
        """
        index = self._index()
        assert isinstance(index, IndexedDocuments)
        return index.ends_in_rows(starts, length)

    @property
    def knows_documents(self) -> bool:
        """Whether anything says where documents end."""
        return self.has_index or self.end_of_text_id is not None

    @property
    def has_index(self) -> bool:
        """Whether the files say where documents end, without a scan of the tokens."""
        return all(file.ends is not None for file in self._found.files)

    @property
    def tokenizer_fingerprint(self) -> str | None:
        """The fingerprint of the tokenizer that made the tokens, as far as the files say."""
        return self._found.tokenizer_fingerprint

    def _index(self) -> IndexedDocuments | ScannedDocuments:
        if self._documents is None:
            if self.has_index:
                self._documents = IndexedDocuments(self._reader, self.shard_starts)
            elif self.end_of_text_id is not None:
                assert self.end_of_text_comes is not None
                self._documents = ScannedDocuments(
                    self.tokens, self.num_tokens, self.end_of_text_id, self.end_of_text_comes
                )
            else:
                raise unknown_documents(self.path)
        return self._documents

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that made these ids, loaded when first asked for; None if unknown."""
        if self._loaded is None:
            self._loaded = self._load_tokenizer()
        return self._loaded

    def decode(self, ids: npt.ArrayLike, *, errors: str = "replace") -> str:
        """The text of some ids; `errors` as in bytes.decode, for ids that cut a character."""
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise TokenmillError(
                f"nothing in {self.path} names the tokenizer that made it",
                hint=f'name it: tokenmill.open("{self.path}", tokenizer="gpt2")',
            )
        data: bytes = tokenizer.decode(np.asarray(ids).reshape(-1))
        return data.decode("utf-8", errors=errors)

    def _load_tokenizer(self) -> Any:
        from tokenmill.tokens import load_tokenizer

        found, given = self._found, self._tokenizer
        if isinstance(given, str):
            given = load_tokenizer.load(given)
        if given is not None:
            if found.tokenizer_fingerprint not in (None, given.fingerprint):
                raise TokenizerMismatchError(
                    f"{self.path} was made with a tokenizer of fingerprint "
                    f"{found.tokenizer_fingerprint}, but {given.name} has {given.fingerprint}",
                    hint="token ids would mean different text; leave tokenizer out",
                )
            return given
        if found.tokenizer_state is not None:
            return load_tokenizer.from_bytes(found.tokenizer_state(), found.tokenizer_state.file)
        if found.tokenizer is not None:
            return load_tokenizer.load(found.tokenizer)
        return None
