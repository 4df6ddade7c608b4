"""The tokens that a ban means, found in the data of its source."""

from typing import Any

import numpy as np

from tokenmill.batches.lookup import tokens_to_find
from tokenmill.dataset import TokenDataset
from tokenmill.edits.banned_tokens import BannedTokens
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Ban
from tokenmill.edits.edited_source import EditedSource
from tokenmill.order.row_order import RowOrder
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.source_order import SourceOrder

Source = SourceOrder | RowOrder | EditedSource


def ban_from(
    source: Source,
    index: int,
    record: RecordedEdit,
    data: TokenDataset,
    order: SampleOrder,
    name: str,
) -> EditedSource:
    """The source with a ban from an index on; a ban that was found before is not looked for again.

    `order` is that of the run, which says what rows are made of; `name` is that of the source.
    """
    before, made = record.found.get("source", ((None, -1), None))
    if before[0] is source and before[1] == index:
        return made  # type: ignore[no-any-return]
    found_in, tokens = record.found.get("tokens", (None, None))
    if found_in != data.num_tokens:  # other data, if it grows before the ban: documents may, too
        tokens = _tokens_of(record, data, order)
        record.found["tokens"] = data.num_tokens, tokens
    edited = source if isinstance(source, EditedSource) else EditedSource(source)
    try:
        made = edited.changed(index, tokens)
    except ValueError:
        raise ValueError(
            f"the ban leaves nothing of {name!r} to train on"
            "\n\nhint: in a mixture, a source of which nothing is wanted has the weight 0"
        ) from None
    record.found["source"] = (source, index), made
    return made


def _tokens_of(record: RecordedEdit, data: TokenDataset, order: SampleOrder) -> BannedTokens:
    ban = record.edit
    assert isinstance(ban, Ban)
    if ban.tokens is not None:
        where: tuple[Any, ...] = tokens_to_find(data, order, ban.tokens)
        start, stop = (np.array([edge]) for edge in ban.tokens)
        return BannedTokens(start, stop, where[:2] if order.rows_of_sources else None)
    numbers = record.found.get("documents", ban.documents)
    try:
        starts, stops = data.document_ranges(np.asarray(numbers, np.int64))
    except IndexError as error:
        raise ValueError(f"a document that does not exist is to be banned: {error}") from None
    some = starts < stops
    starts, stops = starts[some], stops[some]
    if not len(starts):
        raise ValueError("the documents to be banned have no tokens")
    return BannedTokens(starts, stops, (starts, stops - starts))
