"""The page that an address asks for, in its frame: the name of the data, its splits, links.

Knows nothing of HTTP: a path and a query in, a page out.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.markup import Html, join, tag, whole_page
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import TokenmillError
from tokenmill.look.inspect import Inspection, inspect, open_for_looking
from tokenmill.look.show import ShownToken, show_ids
from tokenmill.pages.query import Fields, Query, address, form

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


class Site:
    """A dataset, open for as long as it is browsed."""

    @takes_keywords_of(open_dataset, but=("split",))
    def __init__(self, path: str, **open_options: Any) -> None:
        self._opened = opened = open_for_looking(path, open_options)
        self.name = Path(path).resolve().name
        self.splits = opened.splits
        self.tokenizer = opened.tokenizer
        self.tokenizer_error = opened.tokenizer_error
        self.lock = threading.Lock()  # tables of a dataset are shared by all requests

    @cached_property
    def known(self) -> Inspection:
        return inspect(self._opened.path, **self._opened.open_options)

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
        tabs = (
            tag(
                "a",
                name,
                href=address(route or ".", self.here(name)),
                aria_current="true" if name == split else None,
            )
            for name in self.splits
        )
        links = (
            tag(
                "a",
                target.capitalize() or "Overview",
                href=address(target or ".", here),
                aria_current="page" if target == route else None,
                data_key=KEYS.get(target),
                title=f"key {KEYS[target]}" if target in KEYS else None,
            )
            for target in PAGES
        )
        many = len(self.splits) > 1
        entry = {"type": "search", "name": "q", "value": asked, "placeholder": "Find text  ( / )"}
        top = tag(
            "header",
            tag("a", tag("b", "tokenmill"), " ", self.name, href=address(".", here), class_="name"),
            tag(
                "div",
                tag("nav", *links, aria_label="Pages"),
                tag("nav", *tabs, class_="splits", aria_label="Splits") if many else None,
                class_="places",
            ),
            form("search", split, tag("input", **entry, data_key="/"), role="search"),
        )
        head = join(
            tag("link", rel="icon", href="icon.svg", type="image/svg+xml"),
            tag("link", rel="stylesheet", href="style.css"),
            tag("script", src="script.js", defer=True),
        )
        main = tag("main", tag("h1", page.title), page.body)
        body = tag("body", top, main, tag("output", id="inspector", hidden=True), class_="site")
        return whole_page(f"{page.title} - {self.name}", head, body)


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
        return self.show_ids(self.data.tokens(start, stop))

    def show_ids(self, ids: np.ndarray) -> list[ShownToken]:
        return show_ids(ids, self.site.tokenizer, end_of_text_id=self.data.end_of_text_id)


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
