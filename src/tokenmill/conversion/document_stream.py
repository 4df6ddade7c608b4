"""A dataset as one stream in which documents end with the end-of-text id: what convert reads.

Data with an index, or with the id after each document, is that already. Data with the id before
each document (llm.c) is shifted by one token: the id that opens a document is the one that closes
the document before, so the first is dropped and one is added at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, TokenizerMismatchError
from tokenmill.formats.format import TokenFormat

CHUNK = 1 << 22  # tokens

Chunks = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class StreamRules:
    """What the target asks of documents, and what the caller allows."""

    to: TokenFormat
    dtype: np.dtype[Any]
    end_of_text_id: int | None
    vocab_size: int | None
    add_end_of_text: bool
    allow_lost_documents: bool


class DocumentStream:
    """Random access to the stream."""

    def __init__(self, data: TokenDataset) -> None:
        self._data = data
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


def stream(data: TokenDataset, rules: StreamRules) -> Chunks:
    """The chunks to write: ids, and where documents end among them; what is lost is refused."""
    whole = DocumentStream(data)
    _check_documents(data, rules)
    for start in range(0, whole.num_tokens, CHUNK):
        stop = min(start + CHUNK, whole.num_tokens)
        ids = whole.tokens(start, stop)
        ends = whole.ends(start, stop) - start
        _check_begin_tokens(data, ids, ends, start)
        if rules.vocab_size is not None and len(ids) and int(ids.max()) >= rules.vocab_size:
            at = int(ids.argmax())
            raise TokenizerMismatchError(
                f"token id {int(ids[at])} at position {start + at:,} is outside the vocabulary of "
                f"{rules.vocab_size:,} ids",
                hint="these ids are of another tokenizer; name it with tokenizer=",
            )
        if not data.knows_documents and rules.to.is_indexed and stop == whole.num_tokens:
            ends = np.array([len(ids)])
        if rules.to.documents_by_id and data.knows_documents:
            ids, ends = _known_by_id(ids, ends, rules, data, start)
        yield _fitting(ids, rules.dtype, start), ends


def _check_documents(data: TokenDataset, rules: StreamRules) -> None:
    """Before anything is written: are documents known, and can all be kept?"""
    if rules.allow_lost_documents:
        return
    if rules.to.is_indexed and not data.knows_documents:
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
    if rules.to.documents_by_id and data.knows_documents and rules.end_of_text_id is None:
        raise FormatError(
            f"only an index says where documents of {data.path} end, and the target has none",
            hint="name the id between them with end_of_text=, or pass allow_lost_documents=True",
        )
    only_known = rules.to.end_of_text_id_of(rules.dtype)
    if only_known not in (None, rules.end_of_text_id) and data.knows_documents:
        raise FormatError(
            f"documents end with id {rules.end_of_text_id}, but in {rules.to.name} files of "
            f"{rules.dtype.name} with {only_known}: readers would not find them",
            hint="pass allow_lost_documents=True to write it so",
        )


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


def _known_by_id(
    ids: np.ndarray, ends: np.ndarray, rules: StreamRules, data: TokenDataset, start: int
) -> tuple[np.ndarray, np.ndarray]:
    """Documents that end with the end-of-text id and hold it nowhere else."""
    if rules.end_of_text_id is None:
        return ids, ends
    marked = ids == rules.end_of_text_id
    open_ended = ends[~marked[ends - 1]]
    if len(open_ended) and rules.add_end_of_text:
        ids = np.insert(ids, open_ended, rules.end_of_text_id)
        ends = ends + np.searchsorted(open_ended, ends, side="right")
        marked = ids == rules.end_of_text_id
    elif len(open_ended) and not rules.allow_lost_documents:
        raise FormatError(
            f"a document of {data.path} ends at token {start + int(open_ended[0]):,} without the "
            f"end-of-text id {rules.end_of_text_id}",
            hint="pass add_end_of_text=True to write it after each document",
        )
    marked_ends = np.flatnonzero(marked) + 1
    if not np.array_equal(marked_ends, ends):
        if not rules.allow_lost_documents:
            extra = np.setdiff1d(marked_ends, ends)
            raise FormatError(
                f"a document of {data.path} has the end-of-text id {rules.end_of_text_id} inside, "
                f"at token {start + int(extra[0]) - 1:,}: it would become two",
                hint="pass allow_lost_documents=True to write it so",
            )
        ends = marked_ends if not rules.to.is_indexed or len(marked_ends) else ends
    return ids, ends


def id_first(chunks: Chunks, rules: StreamRules) -> Chunks:
    """The stream with the id before each document: one at the start, the last left out."""
    held = None
    for ids, ends in chunks:
        front = np.array([rules.end_of_text_id], ids.dtype) if held is None else held
        held = ids[-1:]
        yield np.concatenate([front, ids[:-1]]), ends
    if held is not None and held[0] != rules.end_of_text_id:
        yield held, np.empty(0, np.int64)


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
