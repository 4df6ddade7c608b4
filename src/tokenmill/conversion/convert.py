"""convert(src, dst, to="megatron"): a dataset of any format as one of another.

Streamed in chunks, written into a folder beside `dst`, read back and compared, and only then
renamed: `dst` is whole and verified, or not there. Splits stay splits.

On the way, documents end with the end-of-text id, as they do in ours (data that has it in front,
as llm.c, is turned by one token; written as llm.c it is turned back). What cannot be kept is
refused, and the argument that allows it is named: ids that do not fit a type, documents that only
an index tells apart, documents without an end-of-text id.
"""

import importlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.base.atomic import replace_folder, sync_folder, temporary_beside
from tokenmill.conversion.converted_manifest import write_manifest
from tokenmill.conversion.document_stream import Canonical, Rules, stream, turned
from tokenmill.dataset import TokenDataset, Where
from tokenmill.errors import CorruptShardError, FormatError, TokenmillError
from tokenmill.formats.engine.detect import nearest
from tokenmill.formats.engine.found import token_dtype
from tokenmill.formats.engine.held_out import stated
from tokenmill.formats.engine.writing import Target, fitting
from tokenmill.formats.llmc import KINDS
from tokenmill.formats.llmc_write import MAGIC
from tokenmill.formats.mds_unpack import unpack
from tokenmill.shards.manifest import Split

# format -> the module that writes it, and whether its files say where documents end
WRITERS = {
    "tokenmill": ("ours_write", True),
    "llmc": ("llmc_write", False),
    "nanogpt": ("nanogpt_write", False),
    "npy": ("npy_write", False),
    "megatron": ("megatron_write", True),
    "datatrove": ("datatrove_write", True),
    "dolma": ("dolma_write", True),
    "mds": ("mds_write", True),
    "litdata": ("litdata_write", True),
}

# what they write, and what is written beside it
TOKEN_FILES = {
    *(".bin", ".ends", ".json", ".npy", ".idx", ".gz", ".ds", ".index", ".metadata", ".mds"),
}


@dataclass(frozen=True)
class Converted:
    """What was written."""

    path: str
    format: str
    dtype: str
    splits: dict[str, tuple[int, int]]
    """Name -> tokens and shards."""


def convert(
    src: Where | list[Where],
    dst: Where,
    *,
    to: str,
    to_dtype: str | None = None,
    tokens_per_shard: int | None = None,
    add_end_of_text: bool = False,
    allow_lost_documents: bool = False,
    overwrite: bool = False,
    **how_to_open: Any,
) -> Converted:
    """Write the dataset at `src` to the new folder `dst` in the format `to`.

    `to_dtype` is the type of the written ids (by default the smallest that the vocabulary needs).
    `how_to_open` goes to `tokenmill.open`: format, dtype, tokenizer, end_of_text_id.
    """
    if to == "ours":
        to = "tokenmill"
    if to not in WRITERS:
        raise ValueError(nearest("format to write", to, list(WRITERS)))
    target = Path(dst)
    if target.exists() and not overwrite:
        raise FormatError(
            f"{target} exists already", hint="pass overwrite=True (--overwrite) to replace it"
        )
    _refuse_to_replace(target, src)
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    temporary, unpacked = temporary_beside(target), temporary_beside(target)
    try:
        if isinstance(src, (str, os.PathLike)) and unpack(Path(src), unpacked):
            src = unpacked
        whole = dataset.open(src, None, **how_to_open)
        plan = _Plan(whole, to, to_dtype, tokens_per_shard, add_end_of_text, allow_lost_documents)
        temporary.mkdir()
        done = plan.write(temporary)
        plan.compare(temporary)
        _sync(temporary)
        replace_folder(temporary, target, temporary_beside(target))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(unpacked, ignore_errors=True)
    return Converted(str(target), to, plan.dtype.name, done)


def _refuse_to_replace(target: Path, src: Where | list[Where]) -> None:
    """Nothing but token files may be replaced, and not what is only read in part."""
    sources = src if isinstance(src, list) else [src]
    for source in [os.path.realpath(each) for each in sources]:
        if target.resolve() in Path(source).parents:
            raise FormatError(
                f"{target} is to be replaced, but {source} is read from there",
                hint="write to another folder",
            )
    files = (path for path in sorted(target.rglob("*")) if path.is_file())
    for path in files if target.is_dir() else [target] if target.exists() else []:
        if path.suffix not in TOKEN_FILES and path.name != "README.md":
            raise FormatError(
                f"{target} is not replaced: it holds {path.name}, which is no file of tokens",
                hint="write to another folder, or move that file away",
            )


class _Plan:
    """One conversion: what is known of the source, and what the target asks for."""

    def __init__(
        self,
        whole: TokenDataset,
        to: str,
        to_dtype: str | None,
        tokens_per_shard: int | None,
        add_end_of_text: bool,
        allow_lost_documents: bool,
    ) -> None:
        self.to = to
        name, self.indexed = WRITERS[to]
        self.module = importlib.import_module(f"tokenmill.formats.{name}")
        self.splits = _splits_of(whole)
        first = next(iter(self.splits.values()))
        self.tokenizer = first.tokenizer if to == "tokenmill" else None
        if to == "tokenmill" and self.tokenizer is None:
            raise TokenmillError(
                f"nothing in {whole.path} names its tokenizer, and a dataset of ours must have one",
                hint='name it: tokenizer="gpt2" (--tokenizer gpt2)',
            )
        self.dtype = self._choose_dtype(whole, to_dtype)
        self.tokens_per_shard = self._choose_size(tokens_per_shard)
        end_of_text_id = first.end_of_text_id
        if self.tokenizer is not None:
            end_of_text_id = self.tokenizer.end_of_text_id
        self.rules = Rules(
            end_of_text_id=end_of_text_id,
            add_end_of_text=add_end_of_text,
            allow_lost_documents=allow_lost_documents,
            by_id=to == "tokenmill" or not self.indexed,
            indexed=self.indexed,
            vocab_size=self.tokenizer.vocab_size if self.tokenizer else None,
        )
        # llm.c has the end-of-text id before each document.
        self.turns = to == "llmc" and end_of_text_id is not None
        if to == "llmc":
            self._check_llmc(first)

    def write(self, folder: Path) -> dict[str, tuple[int, int]]:
        """All splits, one after another."""
        done: dict[str, tuple[int, int]] = {}
        shards = 0
        splits: dict[str, Split] = {}
        for split, data in self.splits.items():
            target = Target(
                split,
                self.dtype,
                self.tokens_per_shard,
                self.rules.end_of_text_id,
                data.vocab_size,
                data.tokenizer.name if self.to == "datatrove" and data.tokenizer else None,
                first_shard=shards if self.to in ("tokenmill", "llmc") else 0,
            )
            writer = self.module.open_writer(folder, target)
            tokens = 0
            for ids, ends in self._fed(data):
                writer.add(fitting(ids, self.dtype, tokens), ends)
                tokens += len(ids)
            count = writer.close()
            shards += count
            if self.to == "tokenmill":
                splits[split or "train"] = Split.of(tuple(writer.shards))
            done[split or "all"] = (tokens, count)
        if self.to == "tokenmill":
            assert self.tokenizer is not None
            write_manifest(folder, self.tokenizer, self.dtype.name, self.tokens_per_shard, splits)
        return done

    def compare(self, folder: Path) -> None:
        """Read everything back: the same tokens, the same documents."""
        written = _splits_of(
            dataset.open(
                folder,
                None,
                format=self.to,
                dtype=self.dtype if self.to == "dolma" else None,
                end_of_text_id=self.rules.end_of_text_id,
                end_of_text_comes="before" if self.turns else "after",
                backend="pread",
            )
        )
        for (split, data), copy in zip(self.splits.items(), written.values(), strict=True):
            canonical = Canonical(copy)
            position = 0
            for ids, ends in stream(data, self.rules):
                stop = position + len(ids)
                same = stop <= canonical.num_tokens and np.array_equal(
                    canonical.tokens(position, stop), ids
                )
                if same and self.indexed:
                    same = np.array_equal(canonical.ends(position, stop) - position, ends)
                if not same:
                    raise CorruptShardError(
                        f"what was written for {split or 'the data'} is not what was read, between "
                        f"tokens {position:,} and {stop:,}",
                        hint="the disk or the memory is failing; nothing was left behind",
                    )
                position = stop
            if position != canonical.num_tokens:
                raise CorruptShardError(
                    f"{canonical.num_tokens:,} tokens were written for {split or 'the data'}, but "
                    f"{position:,} were read",
                    hint="the source changed while it was read; nothing was left behind",
                )

    def _fed(self, data: TokenDataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        fed = stream(data, self.rules)
        if not self.turns:
            return fed
        assert self.rules.end_of_text_id is not None
        return turned(fed, self.rules.end_of_text_id)

    def _choose_dtype(self, whole: TokenDataset, asked: str | None) -> np.dtype[Any]:
        allowed: tuple[str, ...] = self.module.DTYPES
        if asked is not None:
            if token_dtype(asked).name not in allowed:
                raise ValueError(f"{self.to} has no {asked}; it has {', '.join(allowed)}")
            return token_dtype(asked)
        vocab_size = self.tokenizer.vocab_size if self.tokenizer else whole.vocab_size
        small = vocab_size <= 1 << 16 if vocab_size else whole.dtype.itemsize <= 2
        if not small and whole.dtype.name in allowed and self.to != "tokenmill":
            return whole.dtype
        wide = "uint32" if "uint32" in allowed else "int32"
        return token_dtype("uint16" if small else wide)

    def _choose_size(self, asked: int | None) -> int:
        most: int = self.module.MAX_TOKENS_PER_SHARD
        if asked is None:
            return int(self.module.TOKENS_PER_SHARD)
        if not 1 <= asked <= most:
            raise ValueError(f"tokens_per_shard {asked:,}: {self.to} shards have 1 to {most:,}")
        return asked

    def _check_llmc(self, data: TokenDataset) -> None:
        """The magic of llm.c states the end-of-text id; another one would be lost."""
        stated_id = KINDS[MAGIC[self.dtype.itemsize]][3]
        ours = self.rules.end_of_text_id
        if data.knows_documents and ours != stated_id and not self.rules.allow_lost_documents:
            raise FormatError(
                f"documents end with id {ours}, but in llm.c files of {self.dtype.name} with "
                f"{stated_id}: readers would not find them",
                hint="pass allow_lost_documents=True (--allow-lost-documents) to write it so",
            )


def _splits_of(whole: TokenDataset) -> dict[str | None, TokenDataset]:
    """Each stated split as a dataset; {None: all} where nothing states one."""
    groups = stated(whole.files, whole.path)
    return {
        split: whole.of_files(files, split)
        for split, files in groups.items()
        if any(file.num_tokens for file in files)
    }


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path)
