"""Pages: the list of documents, the longest and the shortest ones, and a random one."""

import secrets

from tokenmill.base.human import plural
from tokenmill.pages.elements.document_lengths import extremes, survey
from tokenmill.pages.elements.find_documents import Extent
from tokenmill.pages.elements.html import Html, join, table, tag
from tokenmill.pages.elements.token_colours import preview
from tokenmill.pages.site.frame import Page, pager
from tokenmill.pages.site.order_form import number_field
from tokenmill.pages.site.query import address
from tokenmill.pages.site.routes import View

PAGE_SIZE = 50
PREVIEW_TOKENS = 24


def documents(view: View) -> Page:
    """A page of the list, from a document or a token on."""
    places, query = view.places, view.query
    listed = places.page(PAGE_SIZE, n=query.optional("n"), at=query.optional("at"))
    before = None if listed.before is None else address("documents", view.here, listed.before)
    after = None if listed.after is None else address("documents", view.here, listed.after)
    jump = tag(
        "form",
        number_field("n" if places.count is not None else "at", None, placeholder="number"),
        tag("input", type="hidden", name="split", value=view.split),
        tag("button", "go"),
        action="documents",
        class_="jump",
    )
    pages = pager(before, after, join(_range(view, listed.extents), jump))
    return Page(f"{places.noun.capitalize()}s", join(pages, rows(view, listed.extents), pages))


def _range(view: View, extents: list[Extent]) -> str:
    places = view.places
    if not extents:
        return f"no {places.noun}s"
    if places.count is not None:
        first, last = extents[0].number, extents[-1].number
        return f"{first:,} to {last:,} of {plural(places.count, 'document')}"
    first, last, total = extents[0].start, extents[-1].stop, view.data.num_tokens
    return f"tokens {first:,} to {last:,} of {total:,} ({100 * first / total:.3g} %)"


def rows(view: View, extents: list[Extent]) -> Html:
    """A table with the beginning of each document."""
    lines: list[tuple[object, ...]] = []
    for extent in extents:
        length = extent.stop - extent.start
        link = address("document", view.here, extent.query)
        label = extent.start if extent.number is None else extent.number
        name = tag("a", f"{label:,}", href=link, class_="number")
        if not length:
            lines.append((name, 0, tag("i", "no tokens"), ""))
            continue
        pieces = view.pieces(extent.start, extent.start + min(length, PREVIEW_TOKENS))
        shown = tag("a", preview(pieces), href=link, class_="preview", tabindex="-1")
        spot = view.places.spot(extent.start, extent)
        size = f"{length:,}" if extent.whole else f"{length:,} or more"
        place = tag("span", f"{spot.file} @ {spot.offset:,}", class_="place")
        lines.append((name, tag("span", size, class_="number"), shown, place))
    first = "document" if view.places.count is not None else "at token"
    return table((first, "tokens", "begins", "file @ token"), lines, class_="documents")


def longest(view: View) -> Page:
    """The longest documents, the longest first."""
    return _extremes(view, longest=True)


def shortest(view: View) -> Page:
    """The shortest documents, the shortest first."""
    return _extremes(view, longest=False)


def _extremes(view: View, *, longest: bool) -> Page:
    title = f"{'Longest' if longest else 'Shortest'} documents"
    if not view.data.knows_documents:
        return Page(
            title, tag("p", "Nothing in this data says where documents end.", class_="note")
        )
    looked_at = survey(view.data)
    found = extremes(looked_at, PAGE_SIZE, longest=longest)
    extents = [_extent(view, start, stop) for start, stop in found]
    note = None
    if not looked_at.is_whole:
        tokens = sum(stop - start for start, stop in looked_at.ranges)
        note = tag(
            "p",
            f"Of {len(looked_at.ranges):,} evenly spaced parts, {tokens:,} of "
            f"{view.data.num_tokens:,} tokens in all: a bounded look, so that the page comes at "
            "once.",
            class_="note",
        )
    return Page(title, join(note, rows(view, extents)))


def _extent(view: View, start: int, stop: int) -> Extent:
    if view.places.count is None:
        return Extent(start, stop)
    return Extent(start, stop, view.data.document_at(start))


def random(view: View) -> Page:
    """Go to a document drawn at random: each document alike, or, without an index, each token."""
    places = view.places
    if not view.data.num_tokens:
        raise ValueError("this split has no tokens")
    if places.count is not None:
        extent = places.numbered(secrets.randbelow(places.count))
    else:
        extent = places.at(secrets.randbelow(view.data.num_tokens))
    return Page("Random", Html(""), 303, address("document", view.here, extent.query))
