"""What to say about a path that holds no tokens: what it is, and the call or command to use."""

import codecs
import shlex
from pathlib import Path

from tokenmill.errors import FormatError, NotADatasetError
from tokenmill.formats.engine.first_bytes import OTHERS
from tokenmill.shards.manifest import FILE_NAME

INDEXES = {FILE_NAME: "tokenmill", "index.json": "MDS or litdata"}
TEXT_SUFFIXES = {".txt", ".md", ".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst", ".xz", ".bz2"}


def not_tokens(path: Path, first_bytes: bytes) -> FormatError:
    """The error for a file that no format claims."""
    for magic, (what, remedy) in OTHERS.items():
        if first_bytes.startswith(magic):
            return FormatError(f"{path} is {what}", hint=remedy.replace("FILE", quoted(path)))
    if path.name in INDEXES:
        return FormatError(
            f"{path} is the index of a dataset ({INDEXES[path.name]}), not tokens",
            hint=f'open its folder: tokenmill.open("{path.parent}")',
        )
    if (owner := dataset_above(path)) is not None:
        return FormatError(
            f"{path} holds no tokens; it is a file in the folder of the dataset {owner}",
            hint=f'open the dataset: tokenmill.open("{owner}")',
        )
    if is_text(first_bytes):
        return FormatError(
            f"{path} is text, not tokens",
            hint=f"prepare it first: tokenmill prepare {quoted(path)} -o OUTPUT",
        )
    return FormatError(
        f"{path} is of no format that can be told by its bytes or its name",
        hint=f'if it holds token ids and nothing else: tokenmill.open("{path}", format="nanogpt", '
        'dtype="uint16")',
    )


def nothing_in(folder: Path) -> NotADatasetError:
    """The error for a folder without token files."""
    counts: dict[str, int] = {}
    for entry in folder.iterdir():
        kind = "folders" if entry.is_dir() else entry.suffix or "files without suffix"
        counts[kind] = counts.get(kind, 0) + 1
    holds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
    text = TEXT_SUFFIXES & set(counts)
    hint = f"to tokenize text: tokenmill prepare {quoted(folder)} -o OUTPUT" if text else None
    return NotADatasetError(f"{folder} holds no token files; it holds {holds}", hint=hint)


def dataset_above(path: Path) -> Path | None:
    """The dataset of ours that a file is part of: in its folder, or in that of a split."""
    for folder in (path.parent, path.parent.parent):
        if (folder / FILE_NAME).is_file():
            return folder
    return None


def is_text(first_bytes: bytes) -> bool:
    """Whether this begins as UTF-8 without control characters, which ids hardly ever do."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(first_bytes)
    except UnicodeDecodeError:
        return False
    return bool(text) and not any(c < " " and c not in "\t\n\r\f" for c in text)


def quoted(path: Path) -> str:
    """A path as one word of a command line."""
    return shlex.quote(str(path))
