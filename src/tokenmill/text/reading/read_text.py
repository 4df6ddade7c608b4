"""Text files, plain or compressed, as chunks of documents."""

import re
from collections.abc import Iterator

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.bad_input import (
    NOT_UTF8,
    TOO_LARGE,
    bad_input,
    find_not_utf8,
    replace_not_utf8,
)
from tokenmill.text.reading.chunks import Chunk, Edge, ReadRules
from tokenmill.text.reading.cut_pieces import DocumentPieces, pieces_of


def read_text(
    source: Source,
    unit: Unit,
    rules: ReadRules,
    cuts: re.Pattern[bytes] | None,
    chunk_bytes: int,
) -> Iterator[Chunk]:
    """The documents of one unit of a text file; an empty file is one empty document."""
    documents = rules.document_rule()
    length = 0
    for pieces, bytes_in in pieces_of(source, unit, rules, documents, cuts, chunk_bytes):
        length += pieces.size
        chunk = Chunk(pieces.texts, pieces.continues, pieces.open)
        chunk.bytes_in, chunk.offset = bytes_in, pieces.offset
        for at in pieces.too_large:
            chunk.leave_out(TOO_LARGE, "byte", at)
        _check_utf8(chunk, pieces, source, rules)
        _drop_empty(chunk)
        yield chunk
    if length == 0 and unit.start == 0 and (source.compression or source.size == 0):
        chunk = Chunk([])
        chunk.leave_out_empty()
        yield chunk


def _check_utf8(chunk: Chunk, pieces: DocumentPieces, source: Source, rules: ReadRules) -> None:
    """Deal with texts that are not UTF-8, as the rules say."""
    if find_not_utf8(pieces.run, pieces.size) < 0:
        return
    kept = []
    begin = 0
    for number, text in enumerate(chunk.texts):
        at = find_not_utf8(text)
        if at < 0:
            kept.append(text)
            continue
        begin = pieces.run.find(text, begin)
        offset = pieces.offset + begin + at
        if rules.on_bad_input == "replace":
            kept.append(replace_not_utf8(text))
            chunk.repaired(NOT_UTF8, "byte", offset)
        else:
            is_open = (number == 0 and chunk.continues is not Edge.NONE) or (
                number == len(chunk.texts) - 1 and chunk.open is not Edge.NONE
            )
            if rules.on_bad_input == "error" or is_open or len(text) > rules.long_line:
                raise _not_utf8(source, rules, offset, text[at : at + 4])
            chunk.leave_out(NOT_UTF8, "byte", offset)
    chunk.texts = kept


def _not_utf8(source: Source, rules: ReadRules, offset: int, found: bytes) -> BadInputError:
    what = f"not UTF-8 (bytes {found.hex(' ')})"
    hint = "convert the file, or pass --on_bad_input replace (or skip)"
    if rules.on_bad_input == "skip":
        what += f" in a document of more than {rules.long_line:,} bytes, too large to leave out"
        hint = "pass --on_bad_input replace, or cut the file into smaller documents"
    return bad_input(source, f" at byte {offset:,}", what, hint)


def _drop_empty(chunk: Chunk) -> None:
    """Leave out documents without a byte; pieces of an open document stay."""
    texts = chunk.texts
    if b"" not in texts:
        return
    keep_first = chunk.continues is not Edge.NONE
    keep_last = chunk.open is not Edge.NONE
    last = len(texts) - 1
    kept = [
        text
        for number, text in enumerate(texts)
        if text or (number == 0 and keep_first) or (number == last and keep_last)
    ]
    chunk.leave_out_empty(len(texts) - len(kept))
    chunk.texts = kept
