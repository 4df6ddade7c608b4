"""Documents, ranges of tokens and the batch of a step, as excerpts with their places.

Text in a dataset is anybody's: control characters, marks that turn the direction of text, and bytes
that are no character alone are written out (\\x1b), so that nothing can move a terminal.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.base.human import plural, visible
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.lookup import TokenPlace, place_of
from tokenmill.dataset import TokenDataset

MAX_TOKENS = 2000
SPACE = "\u00b7"
NEWLINE = "\u21b5"
TAB = "\u2192"
EDGE = "\u2502"
_MARKED = {" ": SPACE, "\n": NEWLINE + "\n", "\t": TAB}
# Neighbouring tokens in two shades, what is special in reverse red.
_SHADES = ("\x1b[48;5;254;38;5;16m", "\x1b[48;5;250;38;5;16m")
_DIM = "\x1b[2m"  # what is no target
_LOUD = "\x1b[1;41;97m"
_RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class ShownToken:
    """One token."""

    id: int
    data: bytes
    """The bytes it stands for; of a special token, how it is written."""
    special: bool = False
    target: bool | None = None
    """True if it is learned, False if not; None: the data has no column `loss`."""

    @property
    def text(self) -> str:
        """The bytes as characters, with everything that is not printable written out."""
        return visible(self.data)


def targets_of(data: TokenDataset, start: int, stop: int) -> np.ndarray | None:
    """Return which tokens are targets; None for data without the column `loss`."""
    return data.column("loss", start, stop) if "loss" in data.columns else None


def show_ids(
    ids: np.ndarray,
    tokenizer: Any,
    *,
    end_of_text_id: int | None = None,
    targets: np.ndarray | None = None,
) -> list[ShownToken]:
    """Some ids as text; without a tokenizer, or outside its vocabulary, as `<id>`."""
    tokens = _shown(ids, tokenizer, end_of_text_id)
    if targets is None:
        return tokens
    pairs = zip(tokens, targets.tolist(), strict=True)
    return [replace(token, target=bool(target)) for token, target in pairs]


def _shown(ids: np.ndarray, tokenizer: Any, end_of_text_id: int | None) -> list[ShownToken]:
    special = end_of_text_id if tokenizer is None else tokenizer.end_of_text_id
    bytes_of = _bytes_of_each(ids, tokenizer)
    tokens = []
    for number, data in zip(ids.tolist(), bytes_of, strict=True):
        if number == special:
            name = getattr(tokenizer, "end_of_text", None) or f"<end of text {number}>"
            tokens.append(ShownToken(number, name.encode(), special=True))
        elif data is None:
            tokens.append(ShownToken(number, f"<{number}>".encode(), special=tokenizer is not None))
        else:
            tokens.append(ShownToken(number, data))
    return tokens


def _bytes_of_each(ids: np.ndarray, tokenizer: Any) -> Sequence[bytes | None]:
    """The bytes that each id adds to the text: an excerpt is short, one call per token is cheap."""
    if tokenizer is None:
        return [None] * len(ids)
    alone = {number: _decode(tokenizer, [number]) for number in np.unique(ids).tolist()}
    joined = [alone[number] for number in ids.tolist()]
    known = [data for data in joined if data is not None]
    if len(known) < len(joined) or b"".join(known) == _decode(tokenizer, ids):
        return joined
    # Tokenizers that drop a space at the start: what a token adds to the one before it.
    result = known[:1]
    for pair, (left, right) in zip(pairwise(ids.tolist()), pairwise(known), strict=True):
        both = _decode(tokenizer, pair) or left + right
        result.append(both[len(left) :] if both.startswith(left) else right)
    return result


def _decode(tokenizer: Any, ids: Any) -> bytes | None:
    try:
        data: bytes = tokenizer.decode(np.asarray(ids))
    except (ValueError, IndexError, OverflowError):
        return None
    return data


def render(tokens: Iterable[ShownToken], *, color: bool, with_ids: bool = False) -> str:
    """Text with the edges of its tokens: shades in colour, bars without.

    What is no target is dim; without colour, `+` is before each target.
    """
    parts = []
    for number, token in enumerate(tokens):
        text = "".join(_MARKED.get(c, c) for c in token.text)
        if with_ids:
            text = f"{text}({token.id})"
        if color:
            style = _LOUD if token.special else _SHADES[number % 2]
            style = _DIM if token.target is False else style
            # A shade that runs over the end of a line would fill the line.
            parts.append("\n".join(f"{style}{t}{_RESET}" if t else "" for t in text.split("\n")))
        else:
            text = f"[[{text}]]" if token.special else text
            parts.append(f"+{text}" if token.target else text)
    return "".join(parts) if color else EDGE.join(parts)


@dataclass(frozen=True)
class Excerpt:
    """Some neighbouring tokens."""

    title: str
    place: TokenPlace
    tokens: list[ShownToken]
    left_out: int
    """Tokens of what was asked for that are not in `tokens`."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Of the document at its beginning, where the data keeps any."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`; bytes that are not UTF-8 are written as \\xNN."""
        return {
            "title": self.title,
            **self.place._asdict(),
            "tokens": [
                {"id": p.id, "text": p.text, "special": p.special}
                | ({} if p.target is None else {"target": p.target})
                for p in self.tokens
            ],
            "left_out": self.left_out,
            **({"facts": self.facts} if self.facts else {}),
        }


def show_tokens(
    data: TokenDataset, start: int, stop: int, *, limit: int = MAX_TOKENS, title: str = ""
) -> Excerpt:
    """The tokens from start to stop; at most `limit` of them."""
    if not 0 <= start < stop <= data.num_tokens:
        has = f"the split has {data.num_tokens:,} tokens, and the first must be before the last"
        raise ValueError(f"tokens {start}:{stop} of {data.path}: {has}")
    ids = data.tokens(start, min(stop, start + limit))
    targets = targets_of(data, start, start + len(ids))
    tokens = show_ids(ids, data.tokenizer, end_of_text_id=data.end_of_text_id, targets=targets)
    title = title or f"tokens {start:,} to {stop:,}"
    place = place_of(data, start)
    left_out = stop - start - len(ids)
    return Excerpt(title, place, tokens, left_out, _facts_at(data, place))


def _facts_at(data: TokenDataset, place: TokenPlace) -> dict[str, Any]:
    return {} if place.document is None else data.facts_of(place.document)


def show_document(data: TokenDataset, document: int, *, limit: int = MAX_TOKENS) -> Excerpt:
    """One document."""
    start, stop = document_range(data, document)
    title = f"document {document:,}: {plural(stop - start, 'token')}"
    if start == stop:
        return Excerpt(title, TokenPlace(start, "", 0, document, 0), [], 0, data.facts_of(document))
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
    """The rows of the batch that a step trains on, block_size + 1 tokens each, without padding."""
    batch = loader.batch(step)
    if row is not None and not 0 <= row < len(batch.tokens):
        raise ValueError(f"row is {row}; the batch has rows 0 to {len(batch.tokens) - 1}")
    for number in range(len(batch.tokens)) if row is None else [row]:
        data = loader.datasets[int(batch.sources[number])]
        sample = int(batch.samples[number])
        title = f"step {step:,}, rank {loader.rank}, row {number} (sample {sample:,})"
        filled = int(batch.spans.filled[number])
        ids = batch.tokens[number, : min(filled, limit)]
        loss = (batch.columns or {}).get("loss")
        shown = show_ids(
            ids,
            data.tokenizer,
            end_of_text_id=data.end_of_text_id,
            targets=None if loss is None else loss[number, : len(ids)],
        )
        if batch.has_padding:
            count = len(batch.spans.between(number, number + 1).row)
            padding = batch.tokens.shape[1] - filled
            title += f": {plural(count, 'document')}, {padding:,} of padding"
        place = place_of(data, int(batch.starts[number]))
        yield Excerpt(title, place, shown, filled - len(ids), _facts_at(data, place))
