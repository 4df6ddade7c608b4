"""The tokens that a ban means, found in the data of its source."""

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Ban
from tokenmill.edits.token_ranges import TokenRanges


def banned_by(record: RecordedEdit, data: TokenDataset) -> TokenRanges:
    """Return the tokens of a ban, which are looked up once for data of one size.

    Data that has grown may have made a banned document longer.
    """
    found = record.looked_up
    if found.num_tokens != data.num_tokens:
        found.tokens = _tokens_of(record, data)
        found.num_tokens = data.num_tokens
    return found.tokens


def _tokens_of(record: RecordedEdit, data: TokenDataset) -> TokenRanges:
    ban = record.edit
    assert isinstance(ban, Ban)
    if ban.tokens is not None:
        start, stop = ban.tokens
        if stop > data.num_tokens:
            raise ValueError(
                f"tokens {start} to {stop} are to be banned, and the source has only "
                f"{data.num_tokens:,}"
            )
        return TokenRanges(np.array([start]), np.array([stop]))
    named = record.looked_up.documents
    numbers = ban.documents if named is None else named
    try:
        starts, stops = data.document_ranges(np.asarray(numbers, np.int64))
    except IndexError as error:
        raise ValueError(f"a document that does not exist is to be banned: {error}") from None
    tokens = TokenRanges(starts, stops)
    if not len(tokens):
        raise ValueError("the documents to be banned have no tokens")
    return tokens
