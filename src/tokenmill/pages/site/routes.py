"""The page that an address asks for. Knows nothing of HTTP: a path and a query in, a page out."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import TokenmillError
from tokenmill.look.inspect import Inspection, inspect
from tokenmill.look.shown_tokens import ShownToken, show_ids
from tokenmill.pages.elements.find_documents import DocumentFinder
from tokenmill.pages.elements.open_splits import OpenedSplits, open_for_looking
from tokenmill.pages.site.frame import Page, framed, message
from tokenmill.pages.site.query import Query


class Site:
    """A dataset, open for as long as it is browsed."""

    def __init__(self, opened: OpenedSplits) -> None:
        self._opened = opened
        self.name = Path(opened.path).resolve().name
        self.splits = opened.splits
        self.tokenizer = opened.tokenizer
        self.tokenizer_error = opened.tokenizer_error
        self.lock = threading.Lock()  # tables of a dataset are shared by all requests

    @classmethod
    @takes_keywords_of(open_dataset, but=("split",))
    def open(cls, path: str, **open_options: Any) -> "Site":
        """Open every split; tokens are read when a page shows them."""
        return cls(open_for_looking(path, open_options))

    @cached_property
    def known(self) -> Inspection:
        """The data as `tokenmill inspect` describes it."""
        return inspect(self._opened.path, **self._opened.open_options)

    def render(self, route: str, encoded: str) -> tuple[Page, str]:
        """The page of an address, and the whole document."""
        splits = list(self.splits)
        split = splits[0]
        asked = ""
        try:
            query = Query(encoded)
            asked = query.text("q")
            named = query.text("split", split)
            if named not in self.splits:
                raise ValueError(f"there is no split {named!r}; known are: {', '.join(splits)}")
            split = named
            page = self._page(route, View(self, split, query))
        except (ValueError, IndexError, TokenmillError, OSError) as error:
            page = message("This cannot be shown", str(error), status=400)
        known = route if route in _pages() else ""
        return page, framed(page, name=self.name, splits=splits, split=split, route=known, q=asked)

    def _page(self, route: str, view: "View") -> Page:
        make = _pages().get(route)
        if make is None:
            return message("No such page", f"There is no page {route!r} here.", status=404)
        with self.lock:
            return make(view)


@dataclass(frozen=True)
class View:
    """One request: a split and a query."""

    site: Site
    split: str
    query: Query

    @property
    def data(self) -> TokenDataset:
        return self.site.splits[self.split]

    @property
    def documents(self) -> DocumentFinder:
        return DocumentFinder(self.data)

    @property
    def here(self) -> dict[str, object]:
        """The fields that every link of the page has."""
        return {"split": None if self.split == next(iter(self.site.splits)) else self.split}

    def file_of(self, position: int) -> tuple[str, int]:
        """The file of a token, and how many tokens of the file are before it."""
        number = int(np.searchsorted(self.data.shard_starts, position, side="right")) - 1
        shard = self.data.shards[number]
        return shard.file, position - shard.start

    def shown(self, start: int, stop: int) -> list[ShownToken]:
        return self.show_ids(self.data.tokens(start, stop))

    def show_ids(self, ids: np.ndarray) -> list[ShownToken]:
        return show_ids(ids, self.site.tokenizer, end_of_text_id=self.data.end_of_text_id)


def _pages() -> dict[str, Callable[[View], Page]]:
    from tokenmill.pages.site import batch_page, document_list, document_page, search_page

    return {
        "": document_list.overview,
        "documents": document_list.documents,
        "longest": partial(document_list.extremes, longest=True),
        "shortest": partial(document_list.extremes, longest=False),
        "random": document_list.random,
        "document": document_page.document,
        "batch": batch_page.batch,
        "search": search_page.search,
    }
