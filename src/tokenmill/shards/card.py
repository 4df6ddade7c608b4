"""The README.md of a dataset: what, from what, how, counts, and how to make it again.

A dataset card for the Hugging Face hub as well: its YAML header is valid there. Written from the
manifest alone, so equal datasets have equal cards; it names no clock and no machine.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import write_atomically
from tokenmill.shards.manifest import ITEM_SIZE, Manifest, SourceEntry, TokenizerEntry

MAX_SOURCES = 50
# What would be Markdown in a cell of a table.
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\|`["} | {"<": "&lt;"})
# The hub's classes of size, by the digits that the number of documents has beyond three.
_SIZES = (
    *("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B"),
    *("1B<n<10B", "10B<n<100B", "100B<n<1T", "n>1T"),
)


def write_tokenizer_and_card(folder: Path, manifest: Manifest, state: bytes, command: str) -> None:
    """The files that a dataset has beside shards and manifest; `command` is what made it."""
    if manifest.tokenizer.state is not None:
        path = folder / manifest.tokenizer.state.file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, state)
    write_atomically(folder / "README.md", dataset_card(manifest, command).encode())


def dataset_card(manifest: Manifest, command: str, *, name: str = "tokens") -> str:
    """The card as Markdown; `command` is what made the dataset, without absolute paths."""
    splits = manifest.splits.values()
    digits = max(0, len(str(sum(split.num_documents for split in splits))) - 3)
    template = Path(__file__).with_name("card.md").read_text("utf-8")
    return template.format(
        pretty_name=json.dumps(_plain(name)),
        size=_SIZES[min(digits, len(_SIZES) - 1)],
        name=_plain(name),
        tokens=sum(split.num_tokens for split in splits),
        tokenizer_name=_plain(manifest.tokenizer.name),
        dtype=manifest.dtype,
        counts=_counts(manifest),
        dropped=_dropped(manifest.accounts),
        sources=_sources(manifest.sources),
        tokenizer=_tokenizer(manifest.tokenizer),
        settings=_settings(manifest),
        load=_load(manifest),
        command=_fenced(command, "console"),
    )


def repacked_card(card: str, before: Manifest, now: Manifest) -> str:
    """The card of a dataset whose files were compressed or unpacked."""
    return card.replace(_load(before), _load(now)).replace(_settings(before), _settings(now))


def _counts(manifest: Manifest) -> str:
    rows = [
        (name, f"{split.num_documents:,}", f"{split.num_tokens:,}", f"{len(split.shards):,}")
        for name, split in manifest.splits.items()
    ]
    return _table(["split", "documents", "tokens", "shards"], rows)


def _dropped(accounts: Mapping[str, Any]) -> str:
    dropped = accounts.get("dropped")
    if not isinstance(dropped, Mapping) or not dropped:
        return ""
    rows = [(str(reason), f"{count:,}") for reason, count in sorted(dropped.items())]
    return f"## Dropped\n\n{_table(['reason', 'documents'], rows)}\n\n"


def _sources(sources: tuple[SourceEntry, ...]) -> str:
    are_folders = any(source.num_files for source in sources)
    head = ["file", "bytes", "documents"]
    if are_folders:
        head = ["folder", "bytes", "documents", "files"]
    rows = []
    for source in sources[:MAX_SOURCES]:
        counts = [source.num_bytes, source.num_documents, source.num_files or 1]
        rows.append([source.name, *(f"{count:,}" for count in counts)][: len(head)])
    table = _table(head, rows)
    more = len(sources) - MAX_SOURCES
    return f"{table}\n\nand {more:,} more; the manifest lists all." if more > 0 else table


def _tokenizer(entry: TokenizerEntry) -> str:
    columns = {
        "name": entry.name,
        "ids": f"{entry.vocab_size:,}",
        "end-of-text id": str(entry.end_of_text_id),
        "fingerprint": entry.fingerprint or "none",
    }
    if entry.begin_token_id is not None:
        columns["begin token id"] = str(entry.begin_token_id)
    return _table(list(columns), [list(columns.values())])


def _settings(manifest: Manifest) -> str:
    rows = [
        (str(key), value if isinstance(value, str) else json.dumps(value))
        for key, value in manifest.settings.items()
    ]
    return _table(["setting", "value"], rows)


def _load(manifest: Manifest) -> str:
    code = 'import tokenmill\n\ndata = tokenmill.open("path/to/this/folder")'
    for shard in manifest.shards[:1]:
        what = "or without tokenmill: a shard is an array of ids"
        if shard.packed is not None:
            what += f", after zstd -d {shard.packed.file}"
        code += (
            f"\n\nimport numpy as np  # {what}\n\n"
            f'ids = np.memmap("{shard.file}", dtype="<u{ITEM_SIZE[manifest.dtype]}", mode="r")'
        )
    return _fenced(code, "python")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = [[_plain(text.translate(_ESCAPED)) for text in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _plain(text: str) -> str:
    """On one line and without control characters, whatever a file was called."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
