"""Oracles: reading and cleaning done plainly, a whole file or document at a time."""

import re
import unicodedata
from dataclasses import replace

from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import cut_into_units
from tokenmill.text.reading.chunks import Edge
from tokenmill.text.reading.read import read_unit

LETTERS = re.compile(rb"[a-z](?= [a-z])")
ANYWHERE = re.compile(rb"[\x00-\xff]")


def naive_documents(data: bytes, rules) -> list[bytes]:
    """Every document of a text file, empty ones too."""
    if not data:
        return [b""]
    if rules.separator is not None:
        parts = data.split(rules.separator.encode())
    elif rules.document_is == "file":
        return [data]
    elif rules.document_is == "line":
        parts = data.split(b"\n")
    else:
        return naive_paragraphs(data)
    return parts[:-1] if parts[-1] == b"" else parts


def naive_paragraphs(data: bytes) -> list[bytes]:
    paragraphs: list[list[bytes]] = [[]]
    for line in data.split(b"\n"):
        if len(line) <= 1000 and not line.strip(b" \t\r"):
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    return [b"\n".join(lines) for lines in paragraphs if lines]


def naive_clean(text: str) -> str:
    text = text.replace("\ufeff", "").replace("\r\n", "\n")
    text = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)
    text = unicodedata.normalize("NFC", text)
    text = re.sub("[ \t]{2,}", " ", text)
    text = re.sub("[ \t]+(?=\n|\\Z)", "", text)
    text = re.sub("\n{3,}", "\n\n", text)
    return re.sub("\\A\n{2,}", "\n", text)


def read_all(path, rules, *, unit_bytes=1 << 30, chunk_bytes=1 << 20, cuts=None, finish=None):
    """(documents, dropped, chunks) of one file, joined over edges; units in order."""
    sources = find_sources([path])
    rules = replace(rules, cuts=cuts, chunk_bytes=chunk_bytes)
    documents: list[bytes] = []
    dropped: dict[str, int] = {}
    chunks = []
    state = Edge.NONE
    for unit in cut_into_units(sources, unit_bytes):
        for chunk in read_unit(sources[unit.source], unit, rules):
            chunks.append(chunk)
            for reason, count in chunk.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
            if not chunk.texts:
                assert chunk.open is Edge.NONE
                continue
            assert chunk.continues is state, (chunk, state)
            texts = list(chunk.texts)
            if state is not Edge.NONE:
                documents[-1] += texts.pop(0)
            documents += texts
            state = chunk.open
    assert state is Edge.NONE
    assert sum(chunk.bytes_in for chunk in chunks) == sources[0].size
    return documents, dropped, chunks


def one_source(path) -> Source:
    [source] = find_sources([path])
    return source
