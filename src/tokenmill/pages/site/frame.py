"""The frame of every page of the site: its name, its splits, links to the pages."""

from dataclasses import dataclass

from tokenmill.base.markup import Html, join, tag, whole_page
from tokenmill.pages.site.query import Fields, address, form

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


def framed(page: Page, *, name: str, splits: list[str], split: str, route: str, q: str = "") -> str:
    """The whole document."""
    here = _split_field(split, splits)
    tabs = (
        tag(
            "a",
            name_of_split,
            href=address(route or ".", _split_field(name_of_split, splits)),
            aria_current="true" if name_of_split == split else None,
        )
        for name_of_split in splits
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
    entry = {"type": "search", "name": "q", "value": q, "placeholder": "Find text  ( / )"}
    box = form("search", split, tag("input", **entry, data_key="/"), role="search")
    top = tag(
        "header",
        tag("a", tag("b", "tokenmill"), " ", name, href=address(".", here), class_="name"),
        tag(
            "div",
            tag("nav", *links, aria_label="Pages"),
            tag("nav", *tabs, class_="splits", aria_label="Splits") if len(splits) > 1 else None,
            class_="places",
        ),
        box,
    )
    head = join(
        tag("link", rel="icon", href="icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="style.css"),
        tag("script", src="script.js", defer=True),
    )
    main = tag("main", tag("h1", page.title), page.body)
    aside = tag("output", id="inspector", hidden=True)
    return whole_page(f"{page.title} - {name}", head, tag("body", top, main, aside, class_="site"))


def _split_field(split: str, splits: list[str]) -> Fields:
    """The field that names a split in an address; the first split needs none."""
    return {"split": None if split == splits[0] else split}


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
