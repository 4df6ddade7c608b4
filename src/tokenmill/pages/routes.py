"""The page that an address asks for, in its frame: the name of the data, its splits, links.

Knows nothing of HTTP: a path and a query in, a page out.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tokenmill.base.markup import Html, join, tag
from tokenmill.dataset import TokenDataset
from tokenmill.errors import TokenmillError
from tokenmill.look.inspect import OpenedData
from tokenmill.look.show import ShownToken, targets_of
from tokenmill.pages.html import fill_in
from tokenmill.pages.query import Fields, Query, address

PAGES = ("", "documents", "batch", "longest", "shortest", "random")
KEYS = {"random": "r", "batch": "b", "documents": "d"}


@dataclass(frozen=True)
class Page:
    """One page, without the frame."""

    title: str
    body: Html
    status: int = 200
    redirect: str | None = None
    """Another address to go to instead."""


class Site(OpenedData):
    """A dataset, open for as long as it is browsed."""

    def __init__(self, path: str, **open_options: Any) -> None:
        super().__init__(path, **open_options)
        self.lock = threading.Lock()  # tables of a dataset are shared by all requests

    def here(self, split: str) -> dict[str, object]:
        """The field that names a split in an address; the first split needs none."""
        return {} if split == next(iter(self.splits)) else {"split": split}

    def render(self, route: str, encoded: str) -> tuple[Page, str]:
        """The page of an address, and the whole document."""
        split = next(iter(self.splits))
        asked = ""
        make = _pages().get(route)
        try:
            query = Query(encoded)
            asked = query.text("q")
            named = query.text("split", split)
            if named not in self.splits:
                known = ", ".join(self.splits)
                raise ValueError(f"there is no split {named!r}; known are: {known}")
            split = named
            if make is None:
                page = message("No such page", f"There is no page {route!r} here.", status=404)
            else:
                with self.lock:
                    page = make(View(self, split, query))
        except (ValueError, IndexError, TokenmillError, OSError) as error:
            page = message("This cannot be shown", str(error), status=400)
        return page, self._framed(page, split, route if make else "", asked)

    def _framed(self, page: Page, split: str, route: str, asked: str) -> str:
        """The whole document, with the page of this route and split marked in its links."""
        here = self.here(split)
        links = []
        for target in PAGES:
            key = KEYS.get(target)
            marks = {"data_key": key, "title": key and f"key {key}"}
            current = "page" if target == route else None
            name = target.capitalize() or "Overview"
            href = address(target or ".", here)
            links.append(tag("a", name, href=href, aria_current=current, **marks))
        tabs = []
        for name in self.splits:
            href = address(route or ".", self.here(name))
            tabs.append(tag("a", name, href=href, aria_current="true" if name == split else None))
        return fill_in(
            "site.html",
            title=page.title,
            body=page.body,
            name=self.name,
            home=address(".", here),
            links=join(*links),
            splits=tag("nav", *tabs, class_="splits", aria_label="Splits") if tabs[1:] else "",
            asked=asked,
            split=split,
        )


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
    def here(self) -> dict[str, object]:
        """The fields that every link of the page has."""
        return self.site.here(self.split)

    def file_of(self, position: int) -> tuple[str, int]:
        """The file of a token, and how many tokens of the file are before it."""
        number = int(np.searchsorted(self.data.shard_starts, position, side="right")) - 1
        shard = self.data.shards[number]
        return shard.file, position - shard.start

    def shown(self, start: int, stop: int) -> list[ShownToken]:
        targets = targets_of(self.data, start, stop)
        return self.site.shown(self.data, self.data.tokens(start, stop), targets)


def _pages() -> dict[str, Callable[[View], Page]]:
    from tokenmill.pages import batch_page, document_list, document_page

    return {
        "": document_list.overview,
        "documents": document_list.documents,
        "longest": partial(document_list.extremes, longest=True),
        "shortest": partial(document_list.extremes, longest=False),
        "random": document_list.random,
        "document": document_page.document,
        "batch": batch_page.batch,
        "search": document_list.search,
    }


def message(title: str, words: str, *, status: int) -> Page:
    """A page that says why there is none."""
    lines = [tag("p", line) for line in words.splitlines() if line.strip()]
    return Page(title, tag("div", *lines, class_="card bad"), status)


def pager(
    page: str, fields: Fields, before: Fields | None, after: Fields | None, between: object
) -> Html:
    """Links to the pages before and after: the address with these fields besides its own."""

    def link(words: str, more: Fields | None, **attributes: str) -> Html:
        if more is None:
            return tag("i", words)
        return tag("a", words, href=address(page, fields, more), **attributes)

    back = link("< before", before, rel="prev", data_key="p")
    on = link("after >", after, rel="next", data_key="n")
    return tag("div", back, tag("span", between), on, class_="pager")
