"""open(path) -> TokenDataset: any project's token files as one axis of tokens.

A dataset is one axis of `len(data)` tokens over all its shards, in the order of their names
(reading/token_axis.py). Opening costs a stat (and for formats with a header, one small read) of
each shard; tokens are mapped or read when they are asked for, documents likewise.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tokenmill.base.address import SHOWN, is_remote
from tokenmill.base.human import plural
from tokenmill.base.signatures import checks_arguments
from tokenmill.base.suggest import one_of
from tokenmill.errors import (
    FormatError,
    MismatchError,
    MissingExtraError,
    TokenizerMismatchError,
    TokenmillError,
)
from tokenmill.formats.detect import detect
from tokenmill.formats.format import Ask, FoundData, token_dtype
from tokenmill.formats.held_out import ALL, check_split, named_splits
from tokenmill.reading.shard_reader import BACKENDS, ArrayReader, ShardReader
from tokenmill.reading.token_axis import Shard, TokenAxis, fingerprint
from tokenmill.reading.token_file import Lazy, TokenFile, index_state

if TYPE_CHECKING:
    from tokenmill.reading.facts import Facts
    from tokenmill.reading.length_index import LengthIndex

__all__ = ["Shard", "TokenDataset", "from_array", "open"]

Where = str | os.PathLike[str]


@checks_arguments
def open(
    path: Where | Sequence[Where],
    split: str | None = None,
    *,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    backend: str = "mmap",
    tokenizer: Any = None,
    end_of_text: int | str | None = None,
    end_of_text_comes: str | None = None,
    cache_dir: Where | None = None,
    cache_bytes: int | None = None,
    verify: bool | None = None,
    begin_token: int | str | None = None,
    columns: Sequence[str] | None = None,
    where: Any = None,
) -> "TokenDataset":
    """Open token files as they are: a tokenmill dataset, a folder, a file, a glob or a list.

    The format is detected by content; `dtype` is needed only where no file states it.

    Data that has no splits opens whole; data with splits (a manifest, folders or file names
    say so) opens its train split. `split="all"` is everything. `split="val"` is what the data says,
    else it is held out by rule: the last shard, or the last tenth of a single file; `split="train"`
    is then the rest.

    `tokenizer` (a name or an object) is for decoding data that does not name its own;
    `end_of_text` says where documents end in data that has no index, `begin_token` that each begins
    with this token: an id, or a special token of `tokenizer`. tokenmill's datasets say both.

    Files of any format may be at `s3://bucket/...`, `gs://`, `az://` or `https://`. Each is fetched
    when its tokens are first needed, into `cache_dir` (the user's cache folder), of which at most
    `cache_bytes` (16 GiB) are used; so are compressed shards that are read in random order.

    `verify=True` compares every shard with its hash in the manifest when it is first touched, and
    raises CorruptShardError for one that was damaged, or swapped with another. Shards from a bucket
    are always compared, unless `verify=False` lets rows come alone: docs/guides/storage.md.

    `columns` are the names of the columns next to the ids that are used, by default all: `loss`
    masks targets, `weights` weigh them (docs/guides/columns.md). `columns=[]` uses none of them.

    `where` chooses documents: SQL over their facts such as "lang = 'en' AND score > 0.5", a list of
    their numbers, or a boolean for each (docs/guides/facts.md). The batches are those of a dataset
    prepared from the chosen documents alone.
    """
    check_split(split)
    one_of("backend", backend, BACKENDS)
    tokenizer = _known_tokenizer(tokenizer)
    ask = Ask(None if dtype is None else token_dtype(dtype), cache_dir, cache_bytes)
    if addresses := _addresses(path):
        from tokenmill.formats.remote import detect_remote
        from tokenmill.stores.store_reader import StoreReader

        cache = ask.cache()
        found = detect_remote(addresses, split, format=format, ask=ask, cache=cache)
        found = _with_columns(found, columns)
        reader: ShardReader = StoreReader(found.files, cache, backend=backend, verify=verify)
    else:
        found = _with_columns(detect(path, split, format=format, ask=ask), columns)
        reader = _local_reader(path, found, ask, backend, verify)
    if split is None:
        splits = {file.split for file in found.files}
        split = splits.pop() if len(splits) == 1 else None
    data = TokenDataset(
        _with_ids(found, end_of_text, end_of_text_comes, begin_token, tokenizer),
        reader,
        path=os.fspath(path) if isinstance(path, (str, os.PathLike)) else f"{len(path)} paths",
        split=None if split == ALL else split,
        tokenizer=tokenizer,
    )
    return data if where is None else data.select(where)


def _addresses(path: Where | Sequence[Where]) -> list[str]:
    """Return the addresses among these; none of them may be a path if one is an address."""
    items = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    addresses = [item for item in items if isinstance(item, str) and is_remote(item)]
    if addresses and len(addresses) < len(items):
        raise ValueError("some of these are files and some are addresses; give one kind")
    return addresses


def _local_reader(
    path: object, found: FoundData, ask: Ask, backend: str, verify: bool | None
) -> ShardReader:
    """Return the reader of files on a disk; arguments that these cannot use are refused."""
    if verify and not found.has_manifest:
        raise ValueError(
            f"verify=True needs a manifest with hashes, and {path} ({found.format}) has none"
            "\n\nhint: leave verify out, or convert: tokenmill convert SRC DST --to tokenmill"
        )
    if any(file.packed for file in found.files):
        from tokenmill.reading.block_reader import BlockReader

        return BlockReader(found.files, ask.cache(), verify=verify)
    if ask.cache_dir is not None or ask.cache_bytes is not None:
        raise ValueError(
            f"cache_dir and cache_bytes are for datasets at {SHOWN} and for compressed ones, "
            f"and {path} is neither"
        )
    return ShardReader(found.files, backend=backend, verify=verify)


def _with_ids(
    found: FoundData,
    end_of_text: int | str | None,
    end_of_text_comes: str | None,
    begin_token: int | str | None,
    tokenizer: Any,
) -> FoundData:
    """Return the same data with the tokens that the caller states instead of its own."""
    one_of("end_of_text_comes", end_of_text_comes, (None, "after", "before"))
    if end_of_text is not None:
        found = replace(found, end_of_text_id=_token_id("end_of_text", end_of_text, tokenizer))
    if begin_token is not None:
        found = replace(found, begin_token_id=_token_id("begin_token", begin_token, tokenizer))
    if end_of_text_comes is not None:
        found = replace(found, end_of_text_comes=end_of_text_comes)
    return found


def _with_columns(found: FoundData, names: Sequence[str] | None) -> FoundData:
    """Return the same data with these of its columns; all files must have the same."""
    files = found.files
    known = [column.name for column in files[0].columns]
    for name in names or ():
        one_of("columns", name, known)
    odd = next((file for file in files if len(file.columns) != len(known)), None)
    if odd is not None and names != []:
        raise FormatError(
            f"{odd.path} has {plural(len(odd.columns), 'column')} next to its ids, but "
            f"{files[0].path} has {len(known)}: all files must have the same",
            hint="bring the missing files there, or use no columns: columns=[]",
        )
    if names is None:
        return found
    chosen = [tuple(c for c in file.columns if c.name in names) for file in files]
    return found.with_files(map(lambda f, c: replace(f, columns=c), files, chosen))


def _known_tokenizer(given: Any) -> Any:
    """Return the name or the file of a tokenizer as text, and an object as one of ours."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    is_ours = hasattr(given, "fingerprint") and not isinstance(given, TokenDataset)
    if given is None or isinstance(given, str) or is_ours:
        return given
    from tokenmill.tokens import load_tokenizer

    return load_tokenizer.load(given)


def _token_id(name: str, token: int | str, tokenizer: Any) -> int:
    """Return the id of a token that was named by its id, or by its spelling."""
    if isinstance(token, int) or token.isdecimal():
        if not 0 <= int(token) < 1 << 63:
            raise ValueError(f"{name} is {token}; an id is 0 or more, and below 2^63")
        return int(token)
    if isinstance(tokenizer, str):
        from tokenmill.tokens import load_tokenizer

        tokenizer = load_tokenizer.load(tokenizer)
    if tokenizer is None:
        raise ValueError(f"{name}={token!r} is a spelling: give its id, or name the tokenizer")
    ids = tokenizer.special_ids
    if token not in ids:
        raise ValueError(
            f"{name}={token!r} is not one of the special tokens of {tokenizer.name}: "
            f"{', '.join(map(repr, ids)) or 'it has none'}"
        )
    return int(ids[token])


@checks_arguments
def from_array(
    ids: npt.ArrayLike,
    *,
    document_ends: npt.ArrayLike | None = None,
    vocab_size: int | None = None,
    end_of_text: int | str | None = None,
    end_of_text_comes: str | None = None,
    tokenizer: Any = None,
    begin_token: int | str | None = None,
) -> "TokenDataset":
    """Return tokens in memory as a dataset: for tests, notebooks and small data.

    `document_ends` are positions in tokens, exclusive, as in an `.ends` file.
    """
    array = np.ascontiguousarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise ValueError(f"ids must be a 1-D array of integers, not {array.ndim}-D {array.dtype}")
    tokenizer = _known_tokenizer(tokenizer)
    array = array.view()
    array.flags.writeable = False
    ends = None
    if document_ends is not None:
        table = np.asarray(document_ends)
        if table.ndim != 1 or (table.size and table.dtype.kind not in "ui"):
            raise ValueError(
                f"document_ends is {document_ends!r:.100}; expected a 1-D array of integers"
            )
        table = table.astype(np.int64)
        ends = Lazy(np.asarray, (table,), len(table))
    digest = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
    file = TokenFile(
        "", "(memory)", array.dtype, len(array), array.nbytes, ends=ends, stated_hash=digest
    )
    found = FoundData("array", (file,), vocab_size=vocab_size)
    return TokenDataset(
        _with_ids(found, end_of_text, end_of_text_comes, begin_token, tokenizer),
        ArrayReader(found.files, array),
        path=file.name,
        split=None,
        tokenizer=tokenizer,
    )


class TokenDataset(TokenAxis):
    """Token files as one axis of tokens: `len(data)`, `data[a:b]`, `data.part(a, b)`, documents."""

    def __init__(
        self,
        found: FoundData,
        reader: ShardReader,
        *,
        path: str,
        split: str | None,
        tokenizer: Any,
    ) -> None:
        has_id = found.end_of_text_id is not None
        super().__init__(
            reader,
            path=path,
            end_of_text_id=found.end_of_text_id,
            end_of_text_comes=found.end_of_text_comes if has_id else None,
        )
        self.begin_token_id = found.begin_token_id
        """The id that every document begins with, None where nothing says so."""
        self.details = found.details
        """What else the files say about themselves: JSON values."""
        self.has_manifest = found.has_manifest
        """True if the manifest of a tokenmill dataset names the files, with hashes. Every id was
        then compared with the vocabulary when the files were written."""
        self.tokenizer_fingerprint = found.tokenizer_fingerprint
        """The fingerprint of the tokenizer that made the tokens, as far as the files say."""
        self.split = split
        self.format = found.format
        self._found = found
        self._tokenizer = tokenizer
        self._loaded: Any = None
        self._fingerprint: str | None = None
        self._by_length: LengthIndex | None = None
        self._facts: Facts | None = None

    def __repr__(self) -> str:
        return (
            f"<TokenDataset {self.path} ({self.format}) split={self.split!r}: "
            f"{plural(self.num_tokens, 'token')} {self.dtype.name} "
            f"in {plural(len(self.shards), 'shard')}>"
        )

    def _repr_html_(self) -> str:
        from tokenmill.base.notebook import facts

        stored = f"{self.dtype.name} in {plural(len(self.shards), 'shard')}, {self.format}"
        known = {"split": self.split, "tokens": self.num_tokens, "stored as": stored}
        return facts(str(self.path), {**known, "vocabulary": self.stated_vocab_size})

    def __getstate__(self) -> dict[str, Any]:
        # Paths and settings travel; what is open, counted or loaded does not.
        opened = ("_loaded", "_documents", "_by_length", "_facts")
        return {**self.__dict__, **dict.fromkeys(opened)}

    @property
    def named_splits(self) -> list[str]:
        """Names of the validation sets such as `val_code` among these tokens."""
        return named_splits(self.files)

    @property
    def fingerprint(self) -> str:
        """Equal for a copy elsewhere, another for other tokens; computed when first asked for."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.format, self.dtype, self._reader.sampler())
        return self._fingerprint

    @property
    def vocab_size(self) -> int | None:
        """Ids are below this, where the data or the tokenizer says so."""
        is_named = self._tokenizer or self._found.tokenizer_state or self._found.tokenizer
        if self.stated_vocab_size is None and is_named:
            return int(self.tokenizer.vocab_size)
        return self.stated_vocab_size

    @property
    def largest_id(self) -> int | None:
        """The largest id of the vocabulary; None where nothing states one, or where a tokenizer
        that only the files name cannot be loaded here."""
        try:
            return None if self.vocab_size is None else self.vocab_size - 1
        except (FormatError, MismatchError, ImportError):
            if self._tokenizer is not None:
                raise
            return None

    @property
    def has_forgotten(self) -> bool:
        """True if documents were forgotten: end-of-text ids are then inside of documents, too."""
        return "forgotten" in self.details

    @property
    def stated_vocab_size(self) -> int | None:
        """The size of the vocabulary, if it is known without loading a tokenizer."""
        of_tokenizer = getattr(self._loaded or self._tokenizer, "vocab_size", None)
        return of_tokenizer if self._found.vocab_size is None else self._found.vocab_size

    def documents_by_length(self) -> "LengthIndex":
        """Return all documents, sorted by length: what rows of whole documents are made from.

        Of large data it is a file in the user's cache folder, built when first asked for.
        """
        if self._by_length is None:
            from tokenmill.reading.length_index import documents_by_length

            self.document_ends(0, 0)  # refuses here if nothing says where documents end
            if self.has_index:
                identity: list[object] = [self.fingerprint, *map(index_state, self.files)]
            else:
                identity = [self.fingerprint, self.end_of_text_id, self.end_of_text_comes]
            key = hashlib.blake2b(repr(identity).encode(), digest_size=16).hexdigest()
            self._by_length = documents_by_length(
                key, self.path, self.num_tokens, self.document_ends
            )
        return self._by_length

    @property
    def has_facts(self) -> bool:
        """Return True if facts of all documents were kept."""
        return bool(self._found.facts)

    @property
    def all_facts(self) -> "Facts":
        """The reader of the facts of these documents."""
        if self._facts is None:
            self._facts = self._reader.facts or self._facts_of_splits()
        return self._facts

    def _facts_of_splits(self) -> "Facts":
        from tokenmill.reading.facts import Facts, no_facts

        splits = dict.fromkeys(file.split for file in self.files)
        files = [file for file in self._found.facts if file.split in splits]
        if not files:
            raise no_facts(self.path)
        if sum(file.num_documents for file in files) != self.num_documents:
            why = "is a part of a split here, and facts are those of whole splits; open the split"
            raise no_facts(self.path, why)
        return Facts(files)

    def facts(self, columns: Sequence[str] | None = None, where: Any = None) -> Any:
        """Return the facts of the documents as an Arrow table: row i is about document i.

        `where` chooses documents as in `tokenmill.open`; the column `document` has their numbers.
        """
        facts = self.all_facts
        chosen = None
        if where is not None:
            from tokenmill.reading.selected_reader import masks_of

            chosen = np.concatenate([np.empty(0, bool), *masks_of(self, where)])
        numbers = np.arange(facts.num_documents) if chosen is None else chosen.nonzero()[0]
        return facts.table(columns, chosen, numbers)

    def facts_of(self, document: int) -> dict[str, Any]:
        """Return what is known of one document: {} without facts, or where none can be read."""
        if not self.has_facts:
            return {}
        with suppress(MissingExtraError):
            return self.all_facts.row(document)
        return {}

    def select(self, where: Any) -> "TokenDataset":
        """Return the chosen documents as a dataset, as `tokenmill.open(path, where=...)` does."""
        from tokenmill.reading.selected_reader import masks_of

        asked = where if isinstance(where, str) else np.asarray(where)
        return self._chosen(asked, lambda: masks_of(self, asked))

    def budget(self, tokens: float) -> "TokenDataset":
        """Return documents of at most so many tokens, chosen by a hash of their content.

        A larger budget contains a smaller one. Needs the facts of the documents.
        """
        from tokenmill.reading.selected_reader import budget_masks

        return self._chosen(f"budget {tokens!r}", lambda: budget_masks(self, tokens))

    def _chosen(self, asked: Any, masks: Any) -> "TokenDataset":
        from tokenmill.reading.selected_reader import choose

        reader = choose(self, asked, masks)
        number = sum(file.ends.count or 0 for file in reader.files if file.ends)
        shown = f": {asked}" if isinstance(asked, str) else ""
        chosen = f"{number:,} of {plural(self.num_documents or 0, 'document')}{shown}"
        found = replace(self._found, details={**self._found.details, "selection": chosen})
        data = TokenDataset(
            found.with_files(reader.files),
            reader,
            path=self.path,
            split=self.split,
            tokenizer=self._tokenizer,
        )
        data._loaded = self._loaded
        return data

    def of_files(self, files: Sequence[TokenFile], split: str | None) -> "TokenDataset":
        """Return the same dataset with only these of its files."""
        data = TokenDataset(
            self._found.with_files(files),
            self._reader.of(files),
            path=self.path,
            split=split,
            tokenizer=self._tokenizer,
        )
        data._loaded = self._loaded
        return data

    def part(self, start: int, stop: int) -> "TokenDataset":
        """Return the tokens from start to stop as a dataset; nothing is read or copied.

        Positions and documents count from `start`. A document that start or stop cuts is in the
        part with the tokens that are inside.
        """
        return self.of_files(self.files_between(start, stop), self.split)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that made these ids, loaded when first asked for; None if unknown."""
        if self._loaded is None:
            self._loaded = self._load_tokenizer()
        return self._loaded

    def decode(self, ids: npt.ArrayLike, *, errors: str = "replace") -> str:
        """Return the text of ids; `errors` as in bytes.decode, for ids that cut a character."""
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

        found = self._found
        given = self._tokenizer
        made_by = found.tokenizer_fingerprint
        if found.tokenizer_state and (given == "chars" or (given and made_by is None)):
            kind, stated = load_tokenizer.stated(found.tokenizer_state())
            made_by = made_by or stated
            given = None if given == kind == "chars" else given  # only the state has its characters
        if isinstance(given, str):
            given = load_tokenizer.load(given)
        if given is not None:
            if made_by not in (None, given.fingerprint):
                raise TokenizerMismatchError(
                    f"{self.path} was made with a tokenizer of fingerprint "
                    f"{made_by}, but {given.name} has {given.fingerprint}",
                    hint="token ids would mean different text; leave tokenizer out",
                )
            return given
        if found.tokenizer_state is None:
            return None if found.tokenizer is None else load_tokenizer.load(found.tokenizer)
        file = found.tokenizer_state.file
        stored = load_tokenizer.from_bytes(found.tokenizer_state(), file)
        if found.has_manifest:
            load_tokenizer.check_stated(
                stored,
                file,
                vocab_size=found.vocab_size,
                end_of_text_id=found.end_of_text_id,
                fingerprint=found.tokenizer_fingerprint,
            )
        return stored
