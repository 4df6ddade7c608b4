"""A dataset opened for looking: every split, one tokenizer for all of them.

Tokens are read, not mapped: a file that another process cuts short is then an error on a page, not
the end of this process, and reading scattered places of cold files is faster (4 s instead of 30 s
for a report on 20 GB of sparse shards).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenmill.dataset import TokenDataset
from tokenmill.errors import TokenmillError
from tokenmill.look.inspect import open_splits


@dataclass(frozen=True)
class OpenedSplits:
    """The data that a page is made from."""

    path: str
    splits: dict[str, TokenDataset]
    open_options: dict[str, Any]
    """For whatever opens the data again: the same backend, the tokenizer that is loaded already."""
    tokenizer: Any = None
    tokenizer_error: str | None = None
    """The reason why there is none though the data names it; ids are shown instead of text."""


def open_for_looking(path: str, open_options: Mapping[str, Any]) -> OpenedSplits:
    """Open every split; `open_options` are keywords of `tokenmill.open`."""
    options = {"backend": "pread", **open_options}
    splits = open_splits(path, **options)
    try:
        tokenizer = next(iter(splits.values())).tokenizer
    except (TokenmillError, ImportError) as error:
        return OpenedSplits(path, splits, options, tokenizer_error=str(error))
    if tokenizer is not None:
        options["tokenizer"] = tokenizer
        splits = open_splits(path, **options)
    return OpenedSplits(path, splits, options, tokenizer)
