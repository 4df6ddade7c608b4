"""The frame of every page of the site: name, splits, where one can go."""

from dataclasses import dataclass

from tokenmill.pages.elements.html import Html, join, tag
from tokenmill.pages.site.query import address

PAGES = (
    ("", "Overview"),
    ("documents", "Documents"),
    ("batch", "Batch"),
    ("longest", "Longest"),
    ("shortest", "Shortest"),
    ("random", "Random"),
)
KEYS = {"random": "r", "batch": "b", "documents": "d"}


@dataclass(frozen=True)
class Page:
    """What a page has of its own."""

    title: str
    body: Html
    status: int = 200
    redirect: str | None = None
    """Another address to go to instead."""


def framed(
    page: Page, *, name: str, splits: list[str], split: str, route: str, q: str = ""
) -> Html:
    """The whole document."""
    here = {"split": split if split != splits[0] else None}
    tabs = (
        tag(
            "a",
            each,
            href=address(route or ".", {"split": each if each != splits[0] else None}),
            aria_current="true" if each == split else None,
        )
        for each in splits
    )
    links = (
        tag(
            "a",
            label,
            href=address(target or ".", here),
            aria_current="page" if target == route else None,
            data_key=KEYS.get(target),
            title=f"key {KEYS[target]}" if target in KEYS else None,
        )
        for target, label in PAGES
    )
    box = tag(
        "form",
        tag(
            "input", type="search", name="q", value=q, placeholder="Find text  ( / )", data_key="/"
        ),
        tag("input", type="hidden", name="split", value=split),
        action="search",
        role="search",
    )
    top = tag(
        "header",
        tag("a", tag("b", "tokenmill"), " ", name, href=address(".", here), class_="name"),
        tag("nav", *links, aria_label="Pages"),
        tag("nav", *tabs, class_="splits", aria_label="Splits") if len(splits) > 1 else None,
        box,
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{page.title} - {name}"),
        tag("link", rel="icon", href="icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="style.css"),
        tag("script", src="script.js", defer=True),
    )
    main = tag("main", tag("h1", page.title), page.body)
    aside = tag("output", id="inspector", hidden=True)
    body = tag("body", top, main, aside, class_="site")
    return join(Html("<!doctype html>\n"), tag("html", head, body, lang="en"))


def message(title: str, words: str, *, status: int) -> Page:
    """A page that says why there is none."""
    lines = [tag("p", line) for line in words.splitlines() if line.strip()]
    return Page(title, tag("div", *lines, class_="card bad"), status)


def pager(before: str | None, after: str | None, between: object) -> Html:
    """Links to the pages before and after."""
    return tag(
        "div",
        tag("a", "< before", href=before, rel="prev", data_key="p")
        if before
        else tag("i", "< before"),
        tag("span", between),
        tag("a", "after >", href=after, rel="next", data_key="n") if after else tag("i", "after >"),
        class_="pager",
    )
