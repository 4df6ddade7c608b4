"""From text to token ids with Python's standard library alone.

    python examples/plain_prepare.py book.txt --document_is paragraph --clean --dedup lines

Written from inputs.md, cleaning.md and validation.md, for text files and the
tokenizer `bytes`: what a reader of these pages needs to foretell a dataset, and nothing for speed.
tests/preparation/test_plain_prepare.py compares it with `tokenmill.prepare`.
"""

import argparse
import re
import struct
import unicodedata
from collections import Counter
from pathlib import Path

from plain_hash import xxh3_128

END_OF_TEXT = 256  # of the tokenizer `bytes`; its other ids are the bytes themselves
MOST_BLANKS = 1000  # in a blank line between paragraphs


def cut(data: bytes, document_is: str = "file", separator: str | None = None) -> list[bytes]:
    """All documents of a text file, empty ones too."""
    if document_is == "paragraph" and data:
        found: list[list[bytes]] = [[]]
        for line in data.split(b"\n"):
            if len(line) <= MOST_BLANKS and not line.strip(b" \t\r"):
                found.append([])
            else:
                found[-1].append(line)
        return [b"\n".join(lines) for lines in found if lines]
    between = b"\n" if document_is == "line" else (separator or "").encode()
    parts = data.split(between) if between and data else [data]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def clean_line(line: str) -> str:
    """Rules 1 to 6, which do not look beyond a line."""
    line = re.sub("[\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]", "", line)
    line = unicodedata.normalize("NFC", line)
    return re.sub("[ \t]{2,}", " ", line).rstrip(" \t")


def squeeze(text: str) -> str:
    """Rule 7."""
    return re.sub("\\A\n{2,}", "\n", re.sub("\n{3,}", "\n\n", text))


def left_of(text, seen, *, clean, dedup, dedup_min_chars, long_line) -> tuple[str, int]:
    """What is left of a document, and how many of its lines were dropped; `seen` grows."""
    lines = text.split("\n")
    kept, dropped = "", 0
    for number, raw in enumerate(lines):
        line = clean_line(raw) if clean else raw
        counts = len(line) >= dedup_min_chars and line.strip(" \t\r\x0b\x0c")
        size = max(len(raw.encode()), len(line.encode()))
        if dedup == "lines" and counts and size <= long_line:
            if line in seen:
                dropped += 1
                continue  # with its newline; the last line has none, and the one before stays
            seen.add(line)
        kept += line + "\n" * (number < len(lines) - 1)
    return squeeze(kept) if clean else kept, dropped


def prepared(files, *, document_is="file", separator=None, clean=False, dedup="none",
             dedup_min_chars=16, long_line=8 << 20) -> tuple[list[str], dict]:  # fmt: skip
    """The texts that are encoded, in order, and how many were dropped for which reason."""
    rules = {"dedup_min_chars": dedup_min_chars, "long_line": long_line}
    seen: set[str] = set()
    texts: list[str] = []
    dropped: Counter[str] = Counter()
    for document in [each for data in files for each in cut(data, document_is, separator)]:
        text, lines = left_of(document.decode(), seen, clean=clean, dedup=dedup, **rules)
        if not (text.strip(" \t\n\r\x0b\x0c") if clean else text):
            dropped["only repeated lines" if lines else "empty"] += 1
        elif dedup == "documents" and text in texts:
            dropped["duplicate"] += 1
        else:
            texts.append(text)
    return texts, dict(dropped)


def number_of(ids: list[int]) -> int:
    """What is compared with the share of documents to hold out, 0 to 2^64 - 1."""
    return int.from_bytes(xxh3_128(struct.pack(f"<{len(ids)}I", *ids))[8:], "little")


def split(texts: list[str], val_fraction: float = 0.1) -> dict[str, list[list[int]]]:
    """The ids of all documents of each split, with the end-of-text id."""
    documents = [[*text.encode()] for text in texts]
    if not val_fraction or len(documents) * val_fraction >= 10:
        held_out = [number_of(ids) < int(val_fraction * 2**64) for ids in documents]
        pairs = list(zip(held_out, documents, strict=True))
        return {
            name: [[*ids, END_OF_TEXT] for is_val, ids in pairs if is_val == (name == "val")]
            for name in ("train", "val")
        }
    left = sum(len(ids) + 1 for ids in documents)
    left -= max(1, round(left * val_fraction)) if left > 1 else 0
    found: dict[str, list[list[int]]] = {"train": [], "val": []}
    for ids in documents:
        tokens = [*ids, END_OF_TEXT]
        found["train"] += [tokens[:left]] if left else []
        found["val"] += [tokens[left:]] if left < len(tokens) else []
        left = max(0, left - len(tokens))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the ids of a text, a document a line.")
    parser.add_argument("file", nargs="+")
    parser.add_argument("--document_is", default="file", choices=("file", "line", "paragraph"))
    parser.add_argument("--separator")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--dedup", default="none", choices=("none", "lines", "documents"))
    parser.add_argument("--val_fraction", type=float, default=0.1)
    asked = vars(parser.parse_args())
    held = asked.pop("val_fraction")
    files = [Path(name).read_bytes() for name in sorted(asked.pop("file"))]
    for name, documents in split(prepared(files, **asked)[0], held).items():
        for ids in documents:
            print(name, *ids)
