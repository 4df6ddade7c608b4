"""Page: the places of a text. Each request scans for about a second and says where it stopped."""

import time

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.dataset import TokenDataset
from tokenmill.look.find_text import Match, find
from tokenmill.pages.find_documents import holding
from tokenmill.pages.html import coloured, note
from tokenmill.pages.query import address
from tokenmill.pages.routes import Page, View

SECONDS = 1.0
HITS = 20
PART_TOKENS = 1 << 16  # tokens between two looks at the clock
AROUND = 24  # tokens shown on each side


def scan(data: TokenDataset, text: str, start: int) -> tuple[list[Match], int]:
    """Matches from `start` on, for about a second, and the token where the scan stopped."""
    until = time.monotonic() + SECONDS
    reach = len(text.encode()) + 1  # a text has no more tokens than bytes
    total = data.num_tokens
    hits: list[Match] = []
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
    start = view.query.number("at", 0)
    if not asked:
        return Page("Search", note("Type a text into the field above."))
    if view.site.tokenizer is None:
        words = view.site.tokenizer_error or "nothing names the tokenizer; give --tokenizer"
        raise ValueError(f"searching needs the tokenizer: {words}")
    hits, stopped = scan(view.data, asked, start)
    status = _status(view, asked, hits, start, stopped)
    return Page(f"Search for {asked!r}", join(status, *(_hit(view, match) for match in hits)))


def _status(view: View, asked: str, hits: list[Match], start: int, stopped: int) -> Html:
    total = view.data.num_tokens
    words = f"{plural(len(hits), 'hit')} in tokens {start:,} to {stopped:,} of {total:,}"
    if stopped >= total:
        return tag("p", f"{words}: the end.", class_="pager")
    link = address("search", view.here, {"q": asked, "at": stopped})
    done = tag("progress", value=stopped, max=total, aria_label="searched so far")
    more = tag("a", "continue", href=link, rel="next", data_key="n")
    return tag("p", words, done, more, class_="pager")


def _hit(view: View, match: Match) -> Html:
    extent = holding(view.data, match.start)
    start = max(extent.start, match.start - AROUND)
    stop = min(extent.stop, match.stop + AROUND)
    link = address("document", view.here, {"at": match.start, "hit": match.stop - match.start})
    place = tag("span", "{}, token {:,}".format(*view.file_of(match.start)))
    heading = tag("h2", tag("a", extent.name, href=link), place, class_="row")
    found = range(match.start - start, match.stop - start)
    tokens = view.shown(start, max(stop, match.stop))
    return tag("article", heading, coloured(tokens, first=start - extent.start, found=found))
