"""Pages: the overview, the list of documents, the longest and shortest ones, and a random one."""

import secrets

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.look.inspect import Inspection, SplitInfo, shown_setting
from tokenmill.pages.find_documents import Extent, survey
from tokenmill.pages.find_documents import extremes as find_extremes
from tokenmill.pages.html import cards, facts, main_figures, note, preview, table
from tokenmill.pages.query import address, form, number_field
from tokenmill.pages.routes import Page, View, pager

FIRST = 12  # documents on the overview
PAGE_SIZE = 50
PREVIEW_TOKENS = 24


def overview(view: View) -> Page:
    """Counts, splits, tokenizer, how it was made; the first documents."""
    known = view.site.known
    figures = cards(
        *main_figures(known),
        ("tokenizer", known.tokenizer.name or "not named"),
        ("on disk", human_bytes(known.bytes)),
    )
    splits: list[tuple[object, ...]] = [
        (
            tag("a", name, href=address("documents", {"split": name})),
            split.tokens,
            "not counted" if split.documents is None else split.documents,
            split.shards,
            tag("span", " ... ".join(_first_and_last(split)), class_="place"),
        )
        for name, split in known.splits.items()
    ]
    body = join(
        figures,
        table(("split", "tokens", "documents", "shards", "files"), splits),
        tag("h2", f"First {view.documents.noun}s of {view.split}"),
        rows(view, view.documents.page(FIRST).extents),
        tag("h2", "How it was made"),
        _made(known),
    )
    return Page(view.site.name, body)


def _first_and_last(split: SplitInfo) -> list[str]:
    """The first and last file, one name where they are the same."""
    return list(dict.fromkeys(filter(None, (split.first_file, split.last_file))))


def _made(known: Inspection) -> Html:
    rows = {"format": known.format, "ids": known.dtype} | known.other_details()
    if made := known.made:
        rows["sources"] = f"{made.sources:,} files, {made.source_bytes:,} bytes"
        stated = made.settings | made.accounts
        rows |= {name: shown_setting(value) for name, value in stated.items()}
    return facts(rows)


def documents(view: View) -> Page:
    """A page of the list, from a document or a token on."""
    finder = view.documents
    page = finder.page(PAGE_SIZE, n=view.query.optional("n"), at=view.query.optional("at"))
    field = number_field("n" if finder.count is not None else "at", None, placeholder="number")
    jump = form("documents", view.split, field, tag("button", "go"), class_="jump")
    between = join(_range(view, page.extents), jump)
    pages = pager("documents", view.here, page.before, page.after, between)
    return Page(f"{finder.noun.capitalize()}s", join(pages, rows(view, page.extents), pages))


def _range(view: View, extents: list[Extent]) -> str:
    finder = view.documents
    if not extents:
        return f"no {finder.noun}s"
    if finder.count is not None:
        return (
            f"{extents[0].number:,} to {extents[-1].number:,} of {plural(finder.count, 'document')}"
        )
    start = extents[0].start
    total = view.data.num_tokens
    return f"tokens {start:,} to {extents[-1].stop:,} of {total:,} ({100 * start / total:.3g} %)"


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
        tokens = view.shown(extent.start, extent.start + min(length, PREVIEW_TOKENS))
        shown = tag("a", preview(tokens), href=link, class_="preview", tabindex="-1")
        size = f"{length:,}" if extent.whole else f"{length:,} or more"
        place = tag("span", "{} @ {:,}".format(*view.file_of(extent.start)), class_="place")
        lines.append((name, tag("span", size, class_="number"), shown, place))
    first = "document" if view.documents.count is not None else "at token"
    return table((first, "tokens", "begins", "file @ token"), lines, class_="documents")


def extremes(view: View, *, longest: bool) -> Page:
    """The longest documents, the longest first, or the shortest."""
    title = f"{'Longest' if longest else 'Shortest'} documents"
    if not view.data.knows_documents:
        return Page(title, note("Nothing in this data says where documents end."))
    looked_at = survey(view.data)
    found = find_extremes(looked_at, PAGE_SIZE, longest=longest)
    indexed = view.documents.count is not None
    extents = [Extent(a, b, view.data.document_at(a) if indexed else None) for a, b in found]
    part = None
    if not looked_at.is_whole:
        tokens = sum(stop - start for start, stop in looked_at.ranges)
        part = note(
            f"Of {len(looked_at.ranges):,} evenly spaced parts, {tokens:,} of "
            f"{view.data.num_tokens:,} tokens in all: a bounded look, so that the page comes at "
            "once."
        )
    return Page(title, join(part, rows(view, extents)))


def random(view: View) -> Page:
    """Go to a document drawn at random: each document alike, or, without an index, each token."""
    finder = view.documents
    if not view.data.num_tokens:
        raise ValueError("this split has no tokens")
    if finder.count is not None:
        extent = finder.numbered(secrets.randbelow(finder.count))
    else:
        extent = finder.at(secrets.randbelow(view.data.num_tokens))
    return Page("Random", Html(""), 303, address("document", view.here, extent.query))
