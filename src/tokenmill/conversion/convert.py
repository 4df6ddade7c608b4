"""convert(src, dst, to="megatron"): a dataset of any format as one of another.

Streamed in chunks, written into a folder beside `dst`, read back and compared, and only then
renamed: `dst` is whole and verified, or not there. Splits stay splits; where one has a name of its
own (val_code), each is written into a folder of its name, whatever the format.

On the way, documents end with the end-of-text id, as they do in ours (where the id comes before a
document, as in llm.c, it is moved by one token; written as llm.c it is moved back). What cannot be
kept is refused, and the argument that allows it is named: ids that do not fit a type, documents
that only an index separates, documents without an end-of-text id.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.base.atomic import is_temporary, remove, replace_folder, sync_folder
from tokenmill.base.lock import hold_lock
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.conversion.document_stream import (
    CHUNK,
    DocumentStream,
    StreamRules,
    id_first,
    stream,
)
from tokenmill.conversion.repack import repack
from tokenmill.dataset import TokenDataset, Where
from tokenmill.errors import CorruptShardError, FormatError, TokenmillError
from tokenmill.formats.format import (
    NO_LIMIT,
    WRITABLE,
    TokenFormat,
    format_to_write,
    load_format,
    token_dtype,
)
from tokenmill.formats.held_out import is_named, stated
from tokenmill.formats.writing import Writer, WriteTarget
from tokenmill.shards.manifest import FILE_NAME, checked_compression

MAX_SHARDS = 10_000
"""Shards are larger than usual where there would be more of them than this."""


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
        _refuse_to_replace(target, src, overwrite)
        if is_repacked and not any((*asked, *how_to_open.values())) and _is_ours(src):
            manifest = repack(Path(str(src)), folder, compress)
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

    After an error nothing of it is left. What a killed conversion left is removed by the next one;
    a dataset that it had moved aside, to replace it, is moved back first.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.convert")
    new = staging / "new"
    replaced = staging / "replaced"

    def clear() -> None:
        """Remove all that is here, but not the only copy of a dataset."""
        if replaced.exists() and not target.exists():
            os.rename(replaced, target)
        temporary = [path for path in staging.glob(".*.tmp") if is_temporary(path.name)]
        for path in (new, replaced, *temporary):
            remove(path)

    try:
        with hold_lock(staging / "lock", guards=target):
            clear()
            new.mkdir()
            try:
                yield new
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


def _refuse_to_replace(target: Path, src: Where | list[Where], overwrite: bool) -> None:
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
        if path.suffix not in suffixes and path.name != "README.md":
            raise FormatError(
                f"{target} is not replaced: it holds {path.name}, which is no file of tokens",
                hint="write to another folder, or move that file away",
            )


class Conversion:
    """One conversion: what is known of the source, and what the target asks for."""

    def __init__(
        self,
        whole: TokenDataset,
        to: TokenFormat,
        to_dtype: str | None,
        tokens_per_shard: int | None,
        add_end_of_text: bool,
        allow_lost_documents: bool,
        compress: str | None,
    ) -> None:
        self.to = to
        self.compress = compress
        self.splits = _splits_of(whole)
        first = next(iter(self.splits.values()))
        self.tokenizer = first.tokenizer if to.needs_tokenizer else None
        if to.needs_tokenizer and self.tokenizer is None:
            raise TokenmillError(
                f"nothing in {whole.path} names its tokenizer, which a tokenmill dataset needs",
                hint='name it: tokenizer="gpt2"',
            )
        self.dtype = self._choose_dtype(whole, to_dtype)
        self.tokens_per_shard = self._choose_size(tokens_per_shard, whole.num_tokens)
        described = first if self.tokenizer is None else self.tokenizer
        self.rules = StreamRules(
            to,
            self.dtype,
            end_of_text_id=described.end_of_text_id,
            vocab_size=self.tokenizer.vocab_size if self.tokenizer else None,
            add_end_of_text=add_end_of_text,
            allow_lost_documents=allow_lost_documents,
        )

    @property
    def id_comes_first(self) -> bool:
        """Whether the end-of-text id is written before each document."""
        return self.to.end_of_text_comes == "before" and self.rules.end_of_text_id is not None

    def write(self, folder: Path) -> dict[str, tuple[int, int]]:
        """All splits, one after another: tokens and shards of each."""
        assert self.to.writer is not None
        done: dict[str, tuple[int, int]] = {}
        writers: dict[str, Writer] = {}
        shards = 0
        for split, data in self.splits.items():
            target = WriteTarget(
                split,
                self.dtype,
                self.tokens_per_shard,
                self.rules.end_of_text_id,
                data.vocab_size,
                data.tokenizer.name if self.to.stores_tokenizer_name and data.tokenizer else None,
                begin_token_id=data.begin_token_id,
                first_shard=shards if self.to.numbers_over_splits else 0,
                own_folder=any(map(is_named, self.splits)),
                compress=self.compress,
            )
            writer = writers[split or "train"] = self.to.writer(folder, target)
            num_tokens = 0
            chunks = stream(data, self.rules)
            try:
                for ids, ends in id_first(chunks, self.rules) if self.id_comes_first else chunks:
                    writer.add(ids, ends)
                    num_tokens += len(ids)
                count = writer.close()
            except BaseException:
                writer.discard()
                raise
            shards += count
            done[split or "all"] = (num_tokens, count)
        self.to.writer.complete(folder, writers, self.tokenizer)
        return done

    def compare(self, folder: Path) -> None:
        """Read everything back: the same tokens, the same documents."""
        written = dataset.open(
            folder,
            "all",
            format=self.to.name,
            dtype=None if self.to.states_dtype else self.dtype,
            end_of_text=self.rules.end_of_text_id,
            end_of_text_comes="before" if self.id_comes_first else "after",
            backend="pread",
        )
        copies = _splits_of(written).values()
        for (split, data), copy in zip(self.splits.items(), copies, strict=True):
            self._compare_split(split or "the data", data, DocumentStream(copy))

    def _compare_split(self, split: str, data: TokenDataset, written: DocumentStream) -> None:
        position = 0
        for ids, ends in stream(data, self.rules):
            stop = position + len(ids)
            same = stop <= written.num_tokens and np.array_equal(
                written.tokens(position, stop), ids
            )
            if same and self.to.is_indexed:
                same = np.array_equal(written.ends(position, stop) - position, ends)
            if not same:
                raise CorruptShardError(
                    f"what was written for {split} is not what was read, between "
                    f"tokens {position:,} and {stop:,}",
                    hint="the disk or the memory is failing; nothing was left there",
                )
            position = stop
        # Where the id comes first, a last document that is cut reads back with an end.
        if self.id_comes_first and ids[-1] != self.rules.end_of_text_id:
            position += 1
        if position != written.num_tokens:
            raise CorruptShardError(
                f"{written.num_tokens:,} tokens were written for {split}, but "
                f"{position:,} were read",
                hint="the source changed while it was read; nothing was left there",
            )

    def _choose_dtype(self, whole: TokenDataset, asked: str | None) -> np.dtype[Any]:
        allowed = self.to.dtypes
        if asked is not None:
            if token_dtype(asked).name not in allowed:
                raise ValueError(f"{self.to.name} has no {asked}; it has {', '.join(allowed)}")
            return token_dtype(asked)
        vocab_size = (whole if self.tokenizer is None else self.tokenizer).vocab_size
        small = vocab_size <= 1 << 16 if vocab_size else whole.dtype.itemsize <= 2
        if not small and whole.dtype.name in allowed and not self.to.needs_tokenizer:
            return whole.dtype
        wide = "uint32" if "uint32" in allowed else "int32"
        return token_dtype("uint16" if small else wide)

    def _choose_size(self, asked: int | None, num_tokens: int) -> int:
        most = self.to.max_tokens_per_shard
        if asked is None:
            size = self.to.tokens_per_shard
            while num_tokens > MAX_SHARDS * size and 2 * size <= most:
                size *= 2
            return size
        if self.to.tokens_per_shard == NO_LIMIT:
            raise ValueError(f"tokens_per_shard {asked:,}: {self.to.name} is one file a split")
        if not 1 <= asked <= most:
            raise ValueError(
                f"tokens_per_shard {asked:,}: {self.to.name} shards have 1 to {most:,}"
            )
        return asked


def _splits_of(whole: TokenDataset) -> dict[str | None, TokenDataset]:
    """Each stated split as a dataset; {None: all} where nothing states one."""
    groups = stated(whole.files, whole.path)
    return {
        split: whole.of_files(files, split)
        for split, files in groups.items()
        if any(file.num_tokens for file in files)
    }
