"""Text files, plain or compressed, as chunks of documents."""

import re
from collections.abc import Iterator

from tokenmill.errors import BadInputError
from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.decompress import Stream, open_stream
from tokenmill.text.inputs.sources import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import utf8
from tokenmill.text.reading.align import Aligner
from tokenmill.text.reading.chunks import Chunk, ReadRules, TooLargeError, bad_input
from tokenmill.text.reading.cut_pieces import Pieces, Splitter
from tokenmill.text.reading.document_rules import Documents
from tokenmill.text.reading.edges import Edge

EMPTY, NOT_UTF8, TOO_LARGE = "empty", "not UTF-8", "too large"


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
        chunk = Chunk(
            pieces.texts,
            pieces.continues,
            pieces.open,
            bytes_in=bytes_in,
            offset=pieces.offset,
        )
        for at in pieces.too_large:
            chunk.leave_out(TOO_LARGE, "byte", at)
        _check_utf8(chunk, pieces, source, rules)
        _drop_empty(chunk)
        yield chunk
    if length == 0 and unit.start == 0 and (source.compression or source.size == 0):
        yield Chunk([], dropped={EMPTY: 1})


def pieces_of(
    source: Source,
    unit: Unit,
    rules: ReadRules,
    documents: Documents,
    cuts: re.Pattern[bytes] | None,
    chunk_bytes: int,
) -> Iterator[tuple[Pieces, int]]:
    """Pieces of one unit with the bytes of the file that each covers."""

    def too_large(offset: int) -> None:
        if rules.on_bad_input == "error":
            what = f"the document from here has more than {rules.max_document_bytes:,} bytes"
            size = _size_of_document(source, documents, offset)
            raise TooLargeError(source, f" at byte {offset:,}", what, size)

    splitter = Splitter(
        documents,
        cuts,
        source.name,
        rules.long_line,
        rules.max_document_bytes,
        too_large,
        rules.large_document_bytes,
        rules.on_large,
    )
    if source.compression:
        with Stream(source.path, source.compression, source.name) as stream:
            seen = 0
            for pieces in splitter.pieces(stream.read, chunk_bytes, 0, Edge.NONE, Edge.NONE):
                yield pieces, stream.raw_position - seen
                seen = stream.raw_position
            if seen < stream.raw_position:
                end = Pieces([], Edge.NONE, Edge.NONE, stream.position, b"")
                yield end, stream.raw_position - seen
        return
    aligner = Aligner(source.path, source.name, source.size, documents, cuts, rules.long_line)
    start, first = aligner.align(unit.start)
    stop, last = aligner.align(unit.stop)
    if start >= stop:
        return
    with open_input.open_binary(source.path) as file:
        file.seek(start)
        left = stop - start

        def read(size: int) -> bytes:
            nonlocal left
            data = open_input.read_full(file, min(size, left))
            left -= len(data)
            return data

        for pieces in splitter.pieces(read, chunk_bytes, start, first, last):
            yield pieces, pieces.size


def _size_of_document(source: Source, documents: Documents, offset: int) -> int:
    """How large the document is that begins here; the file is read again, for errors only."""
    with open_stream(source.path, source.compression, source.name) as stream:
        stream.skip(offset)
        rest, before = b"", 0
        while data := stream.read(1 << 20):
            text = rest + data
            found, rest = documents.split(text, fresh=not before)
            if found:
                return before + len(found[0])
            rest = rest[-documents.behind :]
            before += len(text) - len(rest)
        return before + len(rest)


def _check_utf8(chunk: Chunk, pieces: Pieces, source: Source, rules: ReadRules) -> None:
    """Deal with texts that are not UTF-8, as the rules say."""
    if utf8.first_error(pieces.run, pieces.size) < 0:
        return
    kept = []
    begin = 0
    for number, text in enumerate(chunk.texts):
        at = utf8.first_error(text)
        if at < 0:
            kept.append(text)
            continue
        begin = pieces.run.find(text, begin)
        offset = pieces.offset + begin + at
        if rules.on_bad_input == "replace":
            kept.append(utf8.replace(text))
            chunk.mended(NOT_UTF8, "byte", offset)
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
    chunk.dropped[EMPTY] = len(texts) - len(kept)
    if not chunk.dropped[EMPTY]:
        del chunk.dropped[EMPTY]
    chunk.texts = kept
