"""Text files, plain or compressed, as chunks of documents."""

import os
from collections.abc import Iterator

import numpy as np

from tokenmill.base.address import is_address
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.cut_pieces import DocumentPieces, pieces_of
from tokenmill.text.reading.document_rules import DocumentRule


def read_text(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """The documents of one unit of a text file; an empty file is one empty document."""
    documents = rules.document_rule()
    length = 0
    for pieces, bytes_in in pieces_of(source, unit, rules, documents):
        length += pieces.size
        chunk = Chunk(pieces.texts, continues=pieces.continues, open=pieces.open)
        chunk.bytes_in = bytes_in
        for at in pieces.too_large:
            chunk.leave_out(bad_input.TOO_LARGE, "byte", at)
        if rules.keeps_facts:
            from tokenmill.text.reading.kept_facts import KeptFacts

            chunk.kept = KeptFacts.at(_places(pieces, documents))
        _check_utf8(chunk, pieces, source, rules)
        chunk.drop_empty()
        yield from chunk.apart()
    if length == 0 and unit.start == 0 and (source.compression or source.size == 0):
        yield Chunk([], dropped={bad_input.EMPTY: 1})


def read_small_file(source: Source, most: int, *, keeps_facts: bool) -> Chunk | None:
    """A plain text file of at most so many bytes as one document, read in one go.

    None where there is anything to say about it: `read_unit` does.
    """
    is_plain = source.kind == "text" and source.compression is None
    if not (is_plain and 0 < source.size <= most) or is_address(source.path):
        return None
    try:
        with open(source.path, "rb", buffering=0) as file:
            text = file.read(source.size + 1)
            about = os.fstat(file.fileno())  # a change before or while it was read shows here
    except OSError:
        return None
    found = (len(text), about.st_size, about.st_mtime_ns)
    characters, at = bad_input.scan_utf8(text, len(text))
    if found != (source.size, source.size, source.mtime_ns) or at >= 0:
        return None
    chunk = Chunk([text], bytes_in=len(text), characters=characters)
    if keeps_facts:
        from tokenmill.text.reading.kept_facts import KeptFacts

        chunk.kept = KeptFacts.at([0])
    return chunk


def _check_utf8(chunk: Chunk, pieces: DocumentPieces, source: Source, rules: ReadRules) -> None:
    """Count characters, and deal with texts that are not UTF-8, as the rules say."""
    chunk.characters, at = bad_input.scan_utf8(pieces.run, pieces.size)
    if at < 0:
        return
    stays = [True] * len(chunk.texts)
    begin = 0
    for number, text in enumerate(chunk.texts):
        at = bad_input.find_not_utf8(text)
        if at < 0:
            continue
        begin = pieces.run.find(text, begin)
        offset = pieces.offset + begin + at
        if rules.on_bad_input == "replace":
            chunk.texts[number] = text.decode("utf-8", "replace").encode()
            chunk.repaired(bad_input.NOT_UTF8, "byte", offset)
        elif rules.on_bad_input == "error" or chunk.is_part(number) or len(text) > rules.long_line:
            what = f"not UTF-8 (bytes {text[at : at + 4].hex(' ')})"
            hint = 'convert the file, or pass on_bad_input="replace" or on_bad_input="skip"'
            if rules.on_bad_input == "skip":
                most = f"more than {rules.long_line:,} bytes"
                what += f" in a document of {most}, too large to leave out"
                hint = 'pass on_bad_input="replace", or cut the file into smaller documents'
            raise bad_input.bad_document(source, f" at byte {offset:,}", what, hint)
        else:
            chunk.leave_out(bad_input.NOT_UTF8, "byte", offset)
            stays[number] = False
    chunk.keep_only(stays)


def _places(pieces: DocumentPieces, documents: DocumentRule) -> np.ndarray:
    """Return the byte of the file at which each text begins: (texts,) int64."""
    sizes = np.fromiter(map(len, pieces.texts), np.int64, len(pieces.texts))
    between = documents.fixed_bytes
    begins = np.cumsum(sizes + between) - (sizes + between)
    covered = int(begins[-1] + sizes[-1]) if len(sizes) else 0
    if not between or covered not in (pieces.size, pieces.size - between):
        at = 0  # between these texts are blank lines, or documents that were left out
        for number, text in enumerate(pieces.texts):
            begins[number] = at = max(at, pieces.run.find(text, at))
            at += len(text)
    return begins + pieces.offset
