"""Pages: the overview, documents in turn, the longest, the shortest, a random one, found ones."""

import secrets
import time

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.dataset import TokenDataset
from tokenmill.look.find_text import find
from tokenmill.look.inspect import SplitInfo, shown_setting
from tokenmill.pages import find_documents
from tokenmill.pages.find_documents import Extent
from tokenmill.pages.html import cards, coloured, facts, main_figures, note, preview, table
from tokenmill.pages.query import address, form, number_field
from tokenmill.pages.routes import Page, View, pager

FIRST = 12  # documents on the overview
PAGE_SIZE = 50
PREVIEW_TOKENS = 24
SECONDS = 1.0
HITS = 20
PART_TOKENS = 1 << 16  # tokens between two looks at the clock
AROUND = 24  # tokens shown on each side


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
            tag("span", _files(split), class_="place"),
        )
        for name, split in known.splits.items()
    ]
    made = {"format": known.format, "ids": known.dtype} | known.other_details()
    if known.made:
        made["sources"] = f"{known.made.sources:,} files, {known.made.source_bytes:,} bytes"
        stated = known.made.settings | known.made.accounts
        made |= {name: shown_setting(value) for name, value in stated.items()}
    body = join(
        figures,
        table(("split", "tokens", "documents", "shards", "files"), splits),
        tag("h2", f"First {find_documents.noun_of(view.data)}s of {view.split}"),
        rows(view, find_documents.page_of(view.data, FIRST)[0]),
        tag("h2", "How it was made"),
        facts(made),
    )
    return Page(view.site.name, body)


def _files(split: SplitInfo) -> str:
    return " ... ".join(dict.fromkeys(filter(None, (split.first_file, split.last_file))))


def documents(view: View) -> Page:
    """A page of the list, from a document or a token on."""
    data = view.data
    n = view.query.number("n")
    at = view.query.number("at")
    extents, before, after = find_documents.page_of(data, PAGE_SIZE, n=n, at=at)
    field = number_field("at" if data.num_documents is None else "n", None, placeholder="number")
    jump = form("documents", view.split, field, tag("button", "go"), class_="jump")
    pages = pager("documents", view.here, before, after, join(_range(data, extents), jump))
    title = f"{find_documents.noun_of(data).capitalize()}s"
    return Page(title, join(pages, rows(view, extents), pages))


def _range(data: TokenDataset, extents: list[Extent]) -> str:
    if not extents:
        return f"no {find_documents.noun_of(data)}s"
    if data.num_documents is not None:
        count = plural(data.num_documents, "document")
        return f"{extents[0].number:,} to {extents[-1].number:,} of {count}"
    start = extents[0].start
    total = data.num_tokens
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
    first = "at token" if view.data.num_documents is None else "document"
    return table((first, "tokens", "begins", "file @ token"), lines, class_="documents")


def extremes(view: View, *, longest: bool) -> Page:
    """The longest documents, the longest first, or the shortest."""
    title = f"{'Longest' if longest else 'Shortest'} documents"
    if not view.data.knows_documents:
        return Page(title, note("Nothing in this data says where documents end."))
    data = view.data
    parts = find_documents.survey(data)
    found = find_documents.extremes(data, parts, PAGE_SIZE, longest=longest)
    indexed = data.num_documents is not None
    extents = [Extent(a, b, data.document_at(a) if indexed else None) for a, b in found]
    part = None
    tokens = sum(stop - start for start, stop in parts)
    if tokens < data.num_tokens:
        part = note(
            f"Of {len(parts):,} evenly spaced parts, {tokens:,} of {data.num_tokens:,} tokens in "
            "all: a bounded look, so that the page comes at once."
        )
    return Page(title, join(part, rows(view, extents)))


def random(view: View) -> Page:
    """Go to a document drawn at random: each document alike, or, without an index, each token."""
    data = view.data
    if not data.num_tokens:
        raise ValueError("this split has no tokens")
    if data.num_documents is not None:
        extent = find_documents.numbered(data, secrets.randbelow(data.num_documents))
    else:
        extent = find_documents.holding(data, secrets.randbelow(data.num_tokens))
    return Page("Random", Html(""), 303, address("document", view.here, extent.query))


def scan(data: TokenDataset, text: str, start: int) -> tuple[list[range], int]:
    """Matches from `start` on, for about a second, and the token where the scan stopped."""
    until = time.monotonic() + SECONDS
    reach = len(text.encode()) + 1  # a text has no more tokens than bytes
    total = data.num_tokens
    hits: list[range] = []
    while start < total and time.monotonic() < until:
        high = min(start + PART_TOKENS, total)
        for match in find(data, text, start, min(high + reach, total)):
            if len(hits) == HITS:
                return hits, match.start
            if match.start < high:
                hits.append(match)
        start = high
    return hits, min(start, total)


def search(view: View) -> Page:
    """Hits from a place on, with a link to continue where the scan stopped."""
    asked = view.query.text("q")
    start = view.query.number("at") or 0
    if not asked:
        return Page("Search", note("Type a text into the field above."))
    if view.site.tokenizer is None:
        words = view.site.tokenizer_error or "nothing names the tokenizer; give --tokenizer"
        raise ValueError(f"searching needs the tokenizer: {words}")
    hits, stopped = scan(view.data, asked, start)
    status = _status(view, asked, hits, start, stopped)
    return Page(f"Search for {asked!r}", join(status, *(_hit(view, match) for match in hits)))


def _status(view: View, asked: str, hits: list[range], start: int, stopped: int) -> Html:
    total = view.data.num_tokens
    words = f"{plural(len(hits), 'hit')} in tokens {start:,} to {stopped:,} of {total:,}"
    if stopped >= total:
        return tag("p", f"{words}: the end.", class_="pager")
    link = address("search", view.here, {"q": asked, "at": stopped})
    done = tag("progress", value=stopped, max=total, aria_label="searched so far")
    more = tag("a", "continue", href=link, rel="next", data_key="n")
    return tag("p", words, done, more, class_="pager")


def _hit(view: View, match: range) -> Html:
    extent = find_documents.holding(view.data, match.start)
    start = max(extent.start, match.start - AROUND)
    stop = min(extent.stop, match.stop + AROUND)
    link = address("document", view.here, {"at": match.start, "hit": match.stop - match.start})
    place = tag("span", "{}, token {:,}".format(*view.file_of(match.start)))
    heading = tag("h2", tag("a", extent.name, href=link), place, class_="row")
    found = range(match.start - start, match.stop - start)
    tokens = view.shown(start, max(stop, match.stop))
    return tag("article", heading, coloured(tokens, first=start - extent.start, found=found))
