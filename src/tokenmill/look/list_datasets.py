"""The datasets in a folder that is none itself: one line each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenmill.base.human import one_line, plural
from tokenmill.errors import FormatError, NotADatasetError
from tokenmill.look.inspect import open_splits

DEEPEST = 3
"""How many folders below the one that was named are searched."""


def list_datasets(folder: str | os.PathLike[str], **open_options: Any) -> list[dict[str, Any]]:
    """What each dataset in a folder holds, in the order of their names, as JSON values.

    One that cannot be opened, for want of a dtype or because it is damaged, has an `error`.
    """
    return list(_search(Path(folder), DEEPEST, open_options)) if os.path.isdir(folder) else []


def _search(folder: Path, depth: int, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inside = (path for path in folder.iterdir() if path.is_dir() and path.name[:1] != ".")
    for path in sorted(inside, key=lambda path: os.fsencode(path.name)):
        try:
            yield {"path": str(path), **_known(path, options)}
        except NotADatasetError:
            if depth > 1:
                yield from _search(path, depth - 1, options)
        except FormatError as error:
            yield {"path": str(path), "error": error.message}


def _known(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    splits = open_splits(path, **options)
    data = next(iter(splits.values()))
    tokens = {name: split.num_tokens for name, split in splits.items()}
    return {"format": data.format, "dtype": data.dtype.name, "tokens": tokens}


def lines_of_datasets(folder: str, found: list[dict[str, Any]]) -> list[str]:
    """The same as lines for people."""
    width = max(len(each["path"]) for each in found)
    lines = [f"{one_line(folder)} holds {plural(len(found), 'dataset')}"]
    for each in found:
        words = each.get("error") or f"{each['format']} {each['dtype']}, " + ", ".join(
            f"{name} {plural(tokens, 'token')}" for name, tokens in each["tokens"].items()
        )
        lines.append(f"  {one_line(each['path']):<{width}}  {one_line(words)}")
    return lines
