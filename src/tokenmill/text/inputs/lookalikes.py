"""Text files that look like something else, and a sentence about each: nothing is guessed.

A name may be wrong, but what is in a file may also be text about JSON or CSV. So a file is read as
its name says, or as text where it says nothing, and the user is told what was seen.
"""

import csv

import orjson

from tokenmill.text.inputs.decompress import open_stream
from tokenmill.text.inputs.sniff import KIND_OF_SUFFIX, suffixes
from tokenmill.text.inputs.sources import Source

_HEAD = 1 << 14
_MOST_FILES = 100  # looked at; each costs a read
_MOST_NOTES = 3


def lookalikes(sources: list[Source], text_field: str) -> list[str]:
    """Sentences about the first files that are read as text and look like rows."""
    notes: list[str] = []
    for source in [source for source in sources if source.kind == "text"][:_MOST_FILES]:
        if len(notes) < _MOST_NOTES and (note := _look_at(source, text_field)):
            notes.append(f"{source.name} looks like {note}")
    return notes


def _look_at(source: Source, text_field: str) -> str:
    with open_stream(source.path, source.compression, source.name) as stream:
        head = stream.read(_HEAD)
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = [line for line in (lines[:-1] if len(head) == _HEAD else lines) if line.strip()]
    if whole and all(_has_field(line, text_field) for line in whole):
        return (
            f"JSON lines: every line is an object with a field {text_field!r}; it is read as text; "
            "rename it to .jsonl to read its field"
        )
    says_nothing = suffixes(source.path)[0] not in KIND_OF_SUFFIX
    if says_nothing and len(whole) > 1 and _has_column(whole, text_field):
        return (
            f"CSV: its first line names a column {text_field!r}; it is read as text; give it a "
            "name that ends in .csv to read that column"
        )
    return ""


def _has_field(line: bytes, text_field: str) -> bool:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(row, dict) and isinstance(row.get(text_field), str)


def _has_column(lines: list[bytes], text_field: str) -> bool:
    text = (line.decode("utf-8", "replace") for line in lines)
    try:
        header = next(csv.reader(text))
    except (csv.Error, StopIteration):
        return False
    return len(header) > 1 and header.count(text_field) == 1
