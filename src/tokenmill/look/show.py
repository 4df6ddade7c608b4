"""Documents, ranges of tokens and the batch of a step, as excerpts with their places."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenmill.base.human import plural
from tokenmill.batches.batch import Batch
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.lookup import TokenPlace, place_of
from tokenmill.dataset import TokenDataset
from tokenmill.look.shown_tokens import ShownToken, show_ids

MAX_TOKENS = 2000


@dataclass(frozen=True)
class Excerpt:
    """Some neighbouring tokens."""

    title: str
    place: TokenPlace
    tokens: list[ShownToken]
    left_out: int
    """Tokens of what was asked for that are not in `tokens`."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`; bytes that are not UTF-8 are written as \\xNN."""
        return {
            "title": self.title,
            **self.place._asdict(),
            "tokens": [{"id": p.id, "text": p.text, "special": p.special} for p in self.tokens],
            "left_out": self.left_out,
        }


def show_tokens(
    data: TokenDataset, start: int, stop: int, *, limit: int = MAX_TOKENS, title: str = ""
) -> Excerpt:
    """The tokens from start to stop; at most `limit` of them."""
    if not 0 <= start < stop <= data.num_tokens:
        has = f"the split has {data.num_tokens:,} tokens, and the first must be before the last"
        raise ValueError(f"tokens {start}:{stop} of {data.path}: {has}")
    ids = data.tokens(start, min(stop, start + limit))
    tokens = show_ids(ids, data.tokenizer, end_of_text_id=data.end_of_text_id)
    title = title or f"tokens {start:,} to {stop:,}"
    return Excerpt(title, place_of(data, start), tokens, stop - start - len(ids))


def show_document(data: TokenDataset, document: int, *, limit: int = MAX_TOKENS) -> Excerpt:
    """One document."""
    start, stop = document_range(data, document)
    title = f"document {document:,}: {plural(stop - start, 'token')}"
    if start == stop:
        return Excerpt(title, TokenPlace(start, "", 0, document, 0), [], 0)
    return show_tokens(data, start, stop, limit=limit, title=title)


def document_range(data: TokenDataset, document: int) -> tuple[int, int]:
    """The tokens of a document; that there is none of this number is a ValueError."""
    try:
        return data.document_range(document)
    except IndexError:
        count = data.num_documents
        known = "" if count is None else f"; it has {count:,}, from 0"
        raise ValueError(f"{data.path} has no document {document:,}{known}") from None


def show_step(
    loader: BatchLoader, step: int, *, row: int | None = None, limit: int = MAX_TOKENS
) -> Iterator[Excerpt]:
    """The rows of the batch that a step trains on, block_size + 1 tokens each."""
    batch = loader.batch(step)
    if row is not None and not 0 <= row < len(batch.tokens):
        raise ValueError(f"row is {row}; the batch has rows 0 to {len(batch.tokens) - 1}")
    for number in range(len(batch.tokens)) if row is None else [row]:
        data = loader.datasets[int(batch.sources[number])]
        sample = int(batch.samples[number])
        title = f"step {step:,}, rank {loader.rank}, row {number} (sample {sample:,})"
        yield _show_row(data, batch, number, title, limit)


def _show_row(data: TokenDataset, batch: Batch, row: int, title: str, limit: int) -> Excerpt:
    """A row without its padding; the place is that of its first token."""
    tokens = batch.tokens[row]
    filled = int(batch.spans.filled[row])
    ids = tokens[: min(filled, limit)]
    shown = show_ids(ids, data.tokenizer, end_of_text_id=data.end_of_text_id)
    if batch.has_padding:
        count = len(batch.spans.between(row, row + 1).row)
        title += f": {plural(count, 'document')}, {len(tokens) - filled:,} of padding"
    return Excerpt(title, place_of(data, int(batch.starts[row])), shown, filled - len(ids))
