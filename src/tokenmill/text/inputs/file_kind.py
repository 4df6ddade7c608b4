"""The kind of a file: by its first bytes, then its name, then its text (docs/guides/inputs.md).

A name may be wrong, but a text may also be about JSON or CSV. So a text file that looks like JSON
lines or CSV is still read as text, and `lookalikes` reports what it looks like.
"""

import os
import re
from itertools import islice
from typing import Any

import orjson

from tokenmill.text.inputs.open_input import (
    TABLES,
    InputStream,
    Source,
    bad_file,
    printable,
    read_range,
    stat,
)

COMPRESSION_SUFFIXES = {
    ".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".xz": "xz", ".bz2": "bzip2",
}  # fmt: skip
_PROSE_SUFFIXES = (
    ".txt", ".text", ".md", ".markdown", ".rst", ".tex", ".org", ".log", ".srt",
)  # fmt: skip
CODE_SUFFIXES = (
    ".py", ".pyi", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".css", ".go", ".hs", ".java", ".jl",
    ".js", ".kt", ".lua", ".ml", ".php", ".pl", ".r", ".rb", ".rs", ".scala", ".sh", ".sql",
    ".swift", ".ts",
)  # fmt: skip
KIND_OF_SUFFIX = {
    **dict.fromkeys((*_PROSE_SUFFIXES, *CODE_SUFFIXES), "text"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **{".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"},
}
HEAD_BYTES = 16  # that decide, if they are known
_TEXT_BYTES = 1 << 16
_LOOKALIKE_BYTES = 1 << 14  # of each file, and of at most so many files: each costs a read
_LOOKALIKE_FILES = 100
_LOOKALIKE_NOTES = 3
_PARQUET = b"PAR1"
_ARROW = re.compile(rb"ARROW1|\xff{4}")  # a file, a stream
_MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
}
_SKIPPABLE_FRAME = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # zstd; valid text, so only by name


def suffixes(name: str) -> tuple[str, str]:
    """Return the suffix of the kind, and the compression suffix after it ("" for none)."""
    base = os.path.basename(name).lower()
    compression = next((s for s in COMPRESSION_SUFFIXES if base.endswith(s)), "")
    base = base.removesuffix(compression)
    dot = base.rfind(".")
    return (base[dot:] if dot > 0 else ""), compression


def is_taken(relative: str) -> bool:
    """Return True if a file in a folder is taken: by its suffix, and not if it is hidden."""
    hidden = any(part.startswith(".") for part in relative.split("/"))
    return not hidden and suffixes(relative)[0] in KIND_OF_SUFFIX


def make_source(path: str, name: str) -> Source:
    """Return the source for a file or an object: its size, time of change and kind."""
    size, mtime_ns = stat(path)
    head = read_range(path, 0, HEAD_BYTES)
    return Source(path, name, size, mtime_ns, *detect_kind(path, size, head))


def detect_kind(path: str, size: int, head: bytes) -> tuple[str, str | None]:
    """Return (kind, compression) of a file; `head` is its first HEAD_BYTES bytes."""
    shown = printable(path)
    kind_suffix, compression_suffix = suffixes(path)
    compression = next((kind for kind, magic in _MAGIC.items() if magic.match(head)), None)
    promised = COMPRESSION_SUFFIXES.get(compression_suffix)
    if promised == "zstd" and _SKIPPABLE_FRAME.match(head):
        compression = "zstd"
    if promised and compression is None:
        wrong = f"its first bytes are not those of {promised}" if size else "it is empty"
        hint = "fetch or make it again; or, if it is not compressed, rename it"
        raise bad_file(shown, f"is named {compression_suffix}, but {wrong}", hint=hint)
    if compression is None and size >= 12 and head.startswith(_PARQUET):
        tail = read_range(path, size - len(_PARQUET), size)
        if tail == _PARQUET:
            return "parquet", None
    if _ARROW.match(head):
        return "arrow", None
    kind = KIND_OF_SUFFIX.get(kind_suffix)
    if kind in TABLES:
        holds = f"what is compressed in it (with {compression}) is" if compression else "is"
        magic = _ARROW if kind == "arrow" else re.compile(_PARQUET)
        if not compression or not magic.match(_head(path, compression, shown, HEAD_BYTES)):
            raise bad_file(shown, f"is named .{kind}, but {holds} cut short or not {kind}")
    if kind is None or kind_suffix == ".json":
        kind = _look_inside(path, shown, compression, must_be_json=kind is not None)
    return kind, compression


def _head(path: str, compression: str | None, name: str, size: int) -> bytes:
    with InputStream(path, compression, name) as stream:
        return stream.read(size)


def _look_inside(path: str, shown: str, compression: str | None, *, must_be_json: bool) -> str:
    head = _head(path, compression, shown, _TEXT_BYTES)
    if compression and not must_be_json and head.startswith(_PARQUET):
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    line, newline, _ = text.partition(b"\n")
    whole = newline or len(head) < _TEXT_BYTES
    is_object = _json_object(line) is not None if whole else line.startswith(b"{")
    if is_object or (must_be_json and not text):
        return "jsonl"
    if must_be_json:
        hint = f"write one object per line, for example: jq -c '.[]' {shown} > corpus.jsonl"
        what = "is not JSON lines: its first line is not one JSON object"
        raise bad_file(shown, what, hint=hint)
    return "text"


def lookalikes(sources: list[Source], text_field: str) -> list[str]:
    """Return sentences about the first files that are read as text but look like rows."""
    texts = [source for source in sources if source.kind == "text"][:_LOOKALIKE_FILES]
    notes = (
        f"{source.name} looks like {note}"
        for source in texts
        if (note := _looks_like(source, text_field))
    )
    return list(islice(notes, _LOOKALIKE_NOTES))


def _looks_like(source: Source, text_field: str) -> str:
    head = _head(source.path, source.compression, source.name, _LOOKALIKE_BYTES)
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(head) == _LOOKALIKE_BYTES:
        lines.pop()  # it may be cut
    whole = [line for line in lines if line.strip()]
    fields = ((_json_object(line) or {}).get(text_field) for line in whole)
    if whole and all(isinstance(field, str) for field in fields):
        return (
            f"JSON lines: every line is an object with a field {text_field!r}; it is read as text; "
            "rename it to .jsonl to read its field"
        )
    unknown_name = suffixes(source.path)[0] not in KIND_OF_SUFFIX
    header = whole[0].rstrip(b"\r").split(b",") if len(whole) > 1 else []
    if unknown_name and len(header) > 1 and text_field.encode() in header:
        return (
            f"CSV: its first line names a column {text_field!r}; it is read as text; give it a "
            "name that ends in .csv to read that column"
        )
    return ""


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
