"""The README.md of a dataset: what, from what, how, counts, and how to make it again.

A dataset card for the Hugging Face hub as well: its YAML header is valid there. Written from the
manifest alone, so equal datasets have equal cards; it names no clock and no machine.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenmill.shards.manifest import ITEM_SIZE, Manifest, SourceEntry

MAX_SOURCES = 50
# The hub's classes of size, in documents.
_SIZES = [
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
    (10**10, "1B<n<10B"),
    (10**11, "10B<n<100B"),
    (10**12, "100B<n<1T"),
]


def dataset_card(manifest: Manifest, command: str, *, name: str = "tokens") -> str:
    """The card as Markdown; `command` is what made the dataset, without absolute paths."""
    parts = [
        _header(manifest, name),
        f"# {_plain(name)}\n\n{_summary(manifest)}",
        "## Counts\n\n" + _counts(manifest),
        *_dropped(manifest.books),
        "## From\n\n" + _sources(manifest.sources),
        "## Tokenizer\n\n" + _tokenizer(manifest),
        "## Settings\n\n" + _settings(manifest),
        "## Load\n\n" + _load(manifest),
        "## Make it again\n\n" + _fenced(command, "console"),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _header(manifest: Manifest, name: str) -> str:
    documents = sum(split.num_documents for split in manifest.splits.values())
    size = next((label for limit, label in _SIZES if documents < limit), "n>1T")
    lines = [
        "---",
        f"pretty_name: {json.dumps(_plain(name))}",
        "license: unknown",
        "task_categories:",
        "- text-generation",
        "size_categories:",
        f"- {size}",
        "tags:",
        "- tokenmill",
        "- pretokenized",
        "viewer: false",
        "---",
    ]
    return "\n".join(lines)


def _summary(manifest: Manifest) -> str:
    tokens = sum(split.num_tokens for split in manifest.splits.values())
    return (
        f"{tokens:,} token ids of {_plain(manifest.tokenizer.name)}, stored as {manifest.dtype}, "
        "little-endian, without headers, made by tokenmill. The licence is that of the text."
    )


def _counts(manifest: Manifest) -> str:
    rows = [
        (name, f"{split.num_documents:,}", f"{split.num_tokens:,}", f"{len(split.shards):,}")
        for name, split in manifest.splits.items()
    ]
    return _table(("split", "documents", "tokens", "shards"), rows)


def _dropped(books: Mapping[str, Any]) -> list[str]:
    dropped = books.get("dropped")
    if not isinstance(dropped, Mapping) or not dropped:
        return []
    rows = [(str(reason), f"{count:,}") for reason, count in sorted(dropped.items())]
    return ["## Dropped\n\n" + _table(("reason", "documents"), rows)]


def _sources(sources: tuple[SourceEntry, ...]) -> str:
    rows = [(s.name, f"{s.num_bytes:,}", f"{s.num_documents:,}") for s in sources[:MAX_SOURCES]]
    table = _table(("file", "bytes", "documents"), rows)
    more = len(sources) - MAX_SOURCES
    return f"{table}\n\nand {more:,} more; the manifest lists all." if more > 0 else table


def _tokenizer(manifest: Manifest) -> str:
    tokenizer = manifest.tokenizer
    return _table(
        ("name", "ids", "end-of-text id", "fingerprint"),
        [
            (
                tokenizer.name,
                f"{tokenizer.vocab_size:,}",
                str(tokenizer.end_of_text_id),
                tokenizer.fingerprint,
            )
        ],
    )


def _settings(manifest: Manifest) -> str:
    rows = [
        (str(key), value if isinstance(value, str) else json.dumps(value))
        for key, value in manifest.settings.items()
    ]
    return _table(("setting", "value"), rows)


def _load(manifest: Manifest) -> str:
    split = next((n for n, s in manifest.splits.items() if s.shards), None)
    code = 'import tokenmill\n\ndata = tokenmill.open("path/to/this/folder")'
    if split is not None:
        file = manifest.splits[split].shards[0].file
        code += (
            "\n\nimport numpy as np  # or without tokenmill: a shard is an array of ids\n\n"
            f'ids = np.memmap("{file}", dtype="<u{ITEM_SIZE[manifest.dtype]}", mode="r")'
        )
    return _fenced(code, "python")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    for raw, safe in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("`", "\\`"), ("[", "\\[")):
        text = text.replace(raw, safe)
    return _plain(text)


def _plain(text: str) -> str:
    """On one line and without control characters, whatever a file was called."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
