"""The datasets in a folder that is none itself: one line each."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.errors import FormatError, NotADatasetError
from tokenmill.look.inspect import open_splits

DEEPEST = 3
"""Levels of folders that are searched, below the one that was named."""


@dataclass(frozen=True)
class ListedDataset:
    """One dataset of a folder."""

    path: str
    format: str = ""
    dtype: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    """By split."""
    error: str | None = None
    """The reason why it cannot be opened, such as a dtype that no file states, or damage."""

    def __str__(self) -> str:
        counts = (f"{split} {count:,} tokens" for split, count in self.tokens.items())
        return self.error or f"{self.format} {self.dtype}, {', '.join(counts)}"


def list_datasets(
    folder: str | os.PathLike[str], depth: int = DEEPEST, **open_options: Any
) -> Iterator[ListedDataset]:
    """The datasets in a folder and in the folders of it, in the order of their names."""
    inside = [path for path in Path(folder).glob("[!.]*") if path.is_dir()]
    for path in sorted(inside, key=lambda path: os.fsencode(path.name)):
        try:
            splits = open_splits(path, **open_options)
        except NotADatasetError:
            if depth > 1:
                yield from list_datasets(path, depth - 1, **open_options)
        except FormatError as error:
            yield ListedDataset(str(path), error=error.message)
        else:
            data = next(iter(splits.values()))
            tokens = {name: split.num_tokens for name, split in splits.items()}
            yield ListedDataset(str(path), data.format, data.dtype.name, tokens)
