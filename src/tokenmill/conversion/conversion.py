"""One conversion: a dataset as a stream in which documents end with the end-of-text id, written.

Data with an index, or with the id after each document, is that stream already. Data with the id
before each document (llm.c) is shifted by one token: the id that opens a document is the one that
closes the document before, so the first is dropped and one is added at the end.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.errors import CorruptShardError, FormatError, TokenizerMismatchError, TokenmillError
from tokenmill.formats.format import NO_LIMIT, TokenFormat, token_dtype
from tokenmill.formats.held_out import is_named, stated
from tokenmill.formats.writing import Writer

CHUNK = 1 << 22  # tokens
MAX_SHARDS = 10_000
"""Shards are larger than usual where there would be more of them than this."""

Chunks = Iterator[tuple[np.ndarray, np.ndarray]]


class DocumentStream:
    """Random access to the stream."""

    def __init__(self, data: TokenDataset) -> None:
        self._data = data
        self.column = data.column
        self._shifted = not data.has_index and data.end_of_text_comes == "before"
        self._skip = 0
        self.num_tokens = data.num_tokens
        if self._shifted:
            self._skip = int(data.tokens(0, 1)[0] == data.end_of_text_id)
            self.num_tokens += 1 - self._skip

    def tokens(self, start: int, stop: int) -> np.ndarray:
        last = min(stop + self._skip, self._data.num_tokens)
        ids = self._data.tokens(min(start + self._skip, last), last)
        if len(ids) < stop - start:
            ids = np.append(ids, np.array([self._data.end_of_text_id], ids.dtype))
        return ids

    def ends(self, start: int, stop: int) -> np.ndarray:
        """Where documents end, also the one that the end of the data cuts."""
        if not self._data.knows_documents:
            return np.empty(0, np.int64)
        if self._shifted:
            marked = self.tokens(start, stop) == self._data.end_of_text_id
            found = np.flatnonzero(marked) + start + 1
        else:
            found = self._data.document_ends(start, stop)
        if start < stop == self.num_tokens and (len(found) == 0 or found[-1] != stop):
            found = np.append(found, stop)
        return found


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
        self.columns = self._choose_columns(whole, add_end_of_text)
        self.dtype = self._choose_dtype(whole, to_dtype)
        self.tokens_per_shard = self._choose_size(tokens_per_shard, whole.num_tokens)
        described = first if self.tokenizer is None else self.tokenizer
        self.end_of_text_id = described.end_of_text_id
        self.vocab_size = self.tokenizer.vocab_size if self.tokenizer else None
        self.add_end_of_text = add_end_of_text
        self.allow_lost_documents = allow_lost_documents

    @property
    def id_comes_first(self) -> bool:
        """Whether the end-of-text id is written before each document."""
        return self.to.end_of_text_comes == "before" and self.end_of_text_id is not None

    def write(self, folder: Path) -> dict[str, tuple[int, int]]:
        """All splits, one after another: tokens and shards of each."""
        assert self.to.writer is not None
        done: dict[str, tuple[int, int]] = {}
        writers: dict[str, Writer] = {}
        shards = 0
        for split, data in self.splits.items():
            writer = writers[split or "train"] = self.to.writer(
                folder,
                split,
                self.dtype,
                self.tokens_per_shard,
                self.end_of_text_id,
                data.vocab_size,
                data.tokenizer.name if self.to.stores_tokenizer_name and data.tokenizer else None,
                begin_token_id=data.begin_token_id,
                first_shard=shards if self.to.numbers_over_splits else 0,
                own_folder=any(map(is_named, self.splits)),
                compress=self.compress,
                columns=self.columns,
            )
            num_tokens = 0
            chunks = self.stream(data)
            try:
                for ids, ends in self._id_first(chunks) if self.id_comes_first else chunks:
                    writer.add(ids, ends, self._values(data, num_tokens, len(ids)))
                    num_tokens += len(ids)
                count = writer.close()
                if self.to.keeps_facts and data.has_facts:
                    facts = data.all_facts
                    writer.write_facts(facts.kept_types, facts.batches())
            except BaseException:
                writer.discard()
                raise
            shards += count
            done[split or "all"] = (num_tokens, count)
        self.to.writer.complete(folder, writers, self.tokenizer)
        return done

    def compare(self, folder: Path) -> None:
        """Read everything back: the same tokens, the same documents."""
        if self.to.compares_itself:
            return
        written = dataset.open(
            folder,
            "all",
            format=self.to.name,
            dtype=None if self.to.states_dtype else self.dtype,
            end_of_text=self.end_of_text_id,
            end_of_text_comes="before" if self.id_comes_first else "after",
            backend="pread",
        )
        copies = _splits_of(written).values()
        for (split, data), copy in zip(self.splits.items(), copies, strict=True):
            self._compare_split(split or "the data", data, DocumentStream(copy))

    def _compare_split(self, split: str, data: TokenDataset, written: DocumentStream) -> None:
        position = 0
        for ids, ends in self.stream(data):
            stop = position + len(ids)
            same = stop <= written.num_tokens and np.array_equal(
                written.tokens(position, stop), ids
            )
            if same and self.to.is_indexed:
                same = np.array_equal(written.ends(position, stop) - position, ends)
            for name, values in self._values(data, position, len(ids)).items():
                same = same and np.array_equal(written.column(name, position, stop), values)
            if not same:
                raise CorruptShardError(
                    f"what was written for {split} is not what was read, between "
                    f"tokens {position:,} and {stop:,}",
                    hint="the disk or the memory is failing; nothing was left there",
                )
            position = stop
        # Where the id comes first, a last document that is cut reads back with an end.
        if self.id_comes_first and ids[-1] != self.end_of_text_id:
            position += 1
        if position != written.num_tokens:
            raise CorruptShardError(
                f"{written.num_tokens:,} tokens were written for {split}, but "
                f"{position:,} were read",
                hint="the source changed while it was read; nothing was left there",
            )

    def _choose_columns(self, whole: TokenDataset, add_end_of_text: bool) -> dict[str, int]:
        """Return the bits per token of the columns to write; what has no place is refused."""
        lost = [n for n in whole.columns if self.to.holds is not None and n not in self.to.holds]
        reason = f"{self.to.name} has no place for them"
        if whole.columns and (add_end_of_text or whole.end_of_text_comes == "before"):
            lost = list(whole.columns)
            reason = "tokens would be added or moved, which have no values"
        if lost:
            raise FormatError(
                f"{whole.path} has the columns {', '.join(lost)}, and {reason}",
                hint="leave them out: columns=[] (on the command line --columns none)",
            )
        return {name: 1 if name == "loss" else bits for name, bits in whole.columns.items()}

    def _values(self, data: TokenDataset, position: int, count: int) -> dict[str, np.ndarray]:
        """Return the values of all columns for some tokens."""
        return {name: data.column(name, position, position + count) for name in self.columns}

    def _choose_dtype(self, whole: TokenDataset, asked: str | None) -> np.dtype[Any]:
        allowed = self.to.dtypes
        if asked is not None:
            if token_dtype(asked).name not in allowed:
                raise ValueError(f"{self.to.name} has no {asked}; it has {', '.join(allowed)}")
            return token_dtype(asked)
        if len(allowed) == 1:
            return token_dtype(allowed[0])
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

    def stream(self, data: TokenDataset) -> Chunks:
        """The chunks to write: ids, and where documents end among them; what is lost is refused."""
        whole = DocumentStream(data)
        self._check_documents(data)
        for start in range(0, whole.num_tokens, CHUNK):
            stop = min(start + CHUNK, whole.num_tokens)
            ids = whole.tokens(start, stop)
            ends = whole.ends(start, stop) - start
            _check_begin_tokens(data, ids, ends, start)
            if self.vocab_size is not None and len(ids) and int(ids.max()) >= self.vocab_size:
                at = int(ids.argmax())
                raise TokenizerMismatchError(
                    f"token id {int(ids[at])} at position {start + at:,} is outside the "
                    f"vocabulary of {self.vocab_size:,} ids",
                    hint="these ids are of another tokenizer; name it with tokenizer=",
                )
            if not data.knows_documents and self.to.is_indexed and stop == whole.num_tokens:
                ends = np.array([len(ids)])
            if data.has_forgotten and self.to.keeps_facts:
                _refuse_forgotten(data, ids, ends, start)
            if self.to.documents_by_id and data.knows_documents:
                ids, ends = self._known_by_id(ids, ends, data, start)
            yield _fitting(ids, self.dtype, start), ends

    def _check_documents(self, data: TokenDataset) -> None:
        """Before anything is written: are documents known, and can all be kept?"""
        if self.allow_lost_documents:
            return
        if self.to.is_indexed and not data.knows_documents:
            raise FormatError(
                f"nothing in {data.path} says where documents end, and the target keeps documents",
                hint="name the id between them with end_of_text=, or pass "
                "allow_lost_documents=True to write one long document",
            )
        if data.has_index and (empty := data.num_empty_documents):
            raise FormatError(
                f"{data.path} has {empty:,} empty documents, which would be lost",
                hint="pass allow_lost_documents=True to leave them out",
            )
        if self.to.documents_by_id and data.knows_documents and self.end_of_text_id is None:
            raise FormatError(
                f"only an index says where documents of {data.path} end, and the target has none",
                hint="name the id between them with end_of_text=, or pass "
                "allow_lost_documents=True",
            )
        only_known = self.to.end_of_text_id_of(self.dtype)
        if only_known not in (None, self.end_of_text_id) and data.knows_documents:
            raise FormatError(
                f"documents end with id {self.end_of_text_id}, but in {self.to.name} files of "
                f"{self.dtype.name} with {only_known}: readers would not find them",
                hint="pass allow_lost_documents=True to write it so",
            )

    def _known_by_id(
        self, ids: np.ndarray, ends: np.ndarray, data: TokenDataset, start: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Documents that end with the end-of-text id and hold it nowhere else."""
        if self.end_of_text_id is None:
            return ids, ends
        marked = ids == self.end_of_text_id
        open_ended = ends[~marked[ends - 1]]
        if len(open_ended) and self.add_end_of_text:
            ids = np.insert(ids, open_ended, self.end_of_text_id)
            ends = ends + np.searchsorted(open_ended, ends, side="right")
            marked = ids == self.end_of_text_id
        elif len(open_ended) and not self.allow_lost_documents:
            raise FormatError(
                f"a document of {data.path} ends at token {start + int(open_ended[0]):,} without "
                f"the end-of-text id {self.end_of_text_id}",
                hint="pass add_end_of_text=True to write it after each document",
            )
        marked_ends = np.flatnonzero(marked) + 1
        if not np.array_equal(marked_ends, ends):
            if not self.allow_lost_documents:
                extra = np.setdiff1d(marked_ends, ends)
                raise FormatError(
                    f"a document of {data.path} has the end-of-text id {self.end_of_text_id} "
                    f"inside, at token {start + int(extra[0]) - 1:,}: it would become two",
                    hint="pass allow_lost_documents=True to write it so",
                )
            ends = marked_ends if not self.to.is_indexed or len(marked_ends) else ends
        return ids, ends

    def _id_first(self, chunks: Chunks) -> Chunks:
        """The stream with the id before each document: one at the start, the last left out."""
        held = None
        for ids, ends in chunks:
            front = np.array([self.end_of_text_id], ids.dtype) if held is None else held
            held = ids[-1:]
            yield np.concatenate([front, ids[:-1]]), ends
        if held is not None and held[0] != self.end_of_text_id:
            yield held, np.empty(0, np.int64)


def _check_begin_tokens(data: TokenDataset, ids: np.ndarray, ends: np.ndarray, start: int) -> None:
    """Every document that begins in this chunk has the begin token that the data is said to have.

    The first token is not looked at: it may continue a document, or be one that a split cut.
    """
    if data.begin_token_id is None:
        return
    begins = ends[(ends > 0) & (ends < len(ids))]
    without = begins[ids[begins] != data.begin_token_id]
    if len(without):
        raise FormatError(
            f"the document at token {start + int(without[0]):,} of {data.path} does not begin with "
            f"the begin token {data.begin_token_id}",
            hint="name the id that all documents begin with, or leave begin_token out",
        )


def _refuse_forgotten(data: TokenDataset, ids: np.ndarray, ends: np.ndarray, start: int) -> None:
    """Refuse documents that were forgotten: the new dataset would have no certificate of them."""
    inside = np.setdiff1d(np.flatnonzero(ids == data.end_of_text_id) + 1, ends)
    if len(inside):
        raise FormatError(
            f"the document at token {start + int(inside[0]) - 1:,} of {data.path} was forgotten",
            hint='leave such documents out, where there are facts by where="source IS NOT NULL"; '
            "to change only how files are compressed, give no other options",
        )


def _fitting(tokens: np.ndarray, dtype: np.dtype[Any], position: int) -> np.ndarray:
    """Return the same ids in another type; one that does not fit is refused."""
    if len(tokens) == 0 or np.can_cast(tokens.dtype, dtype, casting="safe"):
        return tokens.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    low, high = int(tokens.min()), int(tokens.max())
    if low < limits.min or high > limits.max:
        bad = high if high > limits.max else low
        at = position + int(np.argmax(tokens == bad))
        raise FormatError(
            f"token id {bad} at position {at:,} does not fit into {dtype.name}",
            hint=f'pass to_dtype="{"uint32" if bad >= 0 else "int32"}"; files will be larger'
            if dtype.itemsize < 4
            else "this is not a token id: the source is damaged or was opened with a wrong dtype",
        )
    return tokens.astype(dtype)


def _splits_of(whole: TokenDataset) -> dict[str | None, TokenDataset]:
    """Each stated split as a dataset; {None: all} where nothing states one."""
    groups = stated(whole.files, whole.path)
    return {
        split: whole.of_files(files, split)
        for split, files in groups.items()
        if any(file.num_tokens for file in files)
    }
