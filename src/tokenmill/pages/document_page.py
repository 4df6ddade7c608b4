"""Page: one document, its place, the steps that train on it, and its ids compared with its text."""

import numpy as np

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.pages.find_documents import Extent, holding, numbered
from tokenmill.pages.html import coloured, facts, note, table
from tokenmill.pages.query import OrderSettings, address, form, number_field
from tokenmill.pages.routes import Page, View, pager

PAGE_TOKENS = 2000
ROUND_TRIP_TOKENS = 100_000
MAX_VISITS = 100
MAX_WINDOWS_OF_RANDOM = 50_000_000  # draws are looked through one by one


def document(view: View) -> Page:
    """The document of a number or of a token; a long one in parts."""
    number = view.query.number("n")
    at = view.query.number("at")
    extent = holding(view.data, at or 0) if number is None else numbered(view.data, number)
    title = extent.name.capitalize()
    if extent.start == extent.stop:
        return Page(title, join(_around(view, extent), tag("p", "It has no tokens.")))
    length = extent.stop - extent.start
    # A place inside (a hit of a search) opens the part that holds it.
    inside = at - extent.start if number is None and at is not None else 0
    first = view.query.number("from", most=length - 1)
    if first is None:
        first = inside - inside % PAGE_TOKENS
    last = min(first + PAGE_TOKENS, length)
    start = extent.start + first
    hit = view.query.number("hit")
    found = range(at - start, at - start + hit) if at is not None and hit else range(0)
    tokens = view.shown(start, extent.start + last)
    edges = {}
    if first == 0 and extent.whole:
        edges[0] = tag("span", f"{extent.noun} begins", class_="edge")
    if last == length and extent.whole:
        edges[last - first] = tag("span", f"{extent.noun} ends", class_="edge")
    body = join(
        _around(view, extent),
        _facts(view, extent),
        parts := _parts(view, extent, first, last),
        tag("article", coloured(tokens, first=first, edges=edges, found=found)),
        parts if last < length else None,
        _when(view, extent),
    )
    return Page(title, body)


def _around(view: View, extent: Extent) -> Html:
    count = view.data.num_documents
    words = extent.name
    if extent.number is not None and count is not None:
        before = {"n": extent.number - 1} if extent.number else None
        after = {"n": extent.number + 1} if extent.number + 1 < count else None
        words += f" of {count:,}"
    else:
        before = holding(view.data, extent.start - 1).query if extent.start else None
        after = {"at": extent.stop} if extent.stop < view.data.num_tokens else None
    return pager("document", view.here, before, after, words)


def _facts(view: View, extent: Extent) -> Html:
    first_file, first = view.file_of(extent.start)
    last_file, last = view.file_of(extent.stop - 1)
    place = f"{first_file}, token {first:,}"
    if last_file != first_file:
        place += f", to {last_file}, token {last:,}"
    length = extent.stop - extent.start
    known: dict[str, object] = {
        "tokens": f"{length:,}" if extent.whole else f"{length:,} or more: no end found nearby",
        "place": place,
        "on the axis": f"{extent.start:,} to {extent.stop:,}",
    }
    if extent.number is not None:
        known |= {f"its {k}": v for k, v in view.data.facts_of(extent.number).items()}
    if view.site.tokenizer_error:
        known["text"] = view.site.tokenizer_error.splitlines()[0]
    elif view.site.tokenizer is None:
        known["text"] = "nothing names the tokenizer, so ids are shown; give --tokenizer"
    elif extent.whole and length <= ROUND_TRIP_TOKENS:
        known |= _text_facts(view, extent)
    return facts(known)


def _text_facts(view: View, extent: Extent) -> dict[str, object]:
    """Bytes per token, and the ids that the text gives when it is encoded again."""
    tokenizer = view.site.tokenizer
    ids = view.data.tokens(extent.start, extent.stop)
    ids = ids[ids != tokenizer.end_of_text_id]
    try:
        data = tokenizer.decode(ids)
        again = np.asarray(tokenizer.encode_batch([data])[0])
    except (ValueError, IndexError, OverflowError) as error:
        return {"encoded again": tag("span", str(error), class_="mark bad")}
    size = f"{len(data):,} bytes, {len(data) / max(1, len(ids)):.2f} a token"
    mark = tag("span", "the same ids", class_="mark good")
    if not np.array_equal(again, ids):
        shorter = min(len(ids), len(again))
        same = int((ids[:shorter] == again[:shorter]).cumprod().sum())
        mark = tag("span", f"other ids from token {same:,} on", class_="mark bad")
    return {"text": size, "encoded again": mark}


def _parts(view: View, extent: Extent, first: int, last: int) -> Html | None:
    length = extent.stop - extent.start
    if length <= PAGE_TOKENS:
        return None
    before = {"from": first - PAGE_TOKENS} if first >= PAGE_TOKENS else None
    after = {"from": last} if last < length else None
    words = f"tokens {first:,} to {last:,} of {length:,}"
    return pager("document", view.here | extent.query, before, after, words)


def _when(view: View, extent: Extent) -> Html:
    settings = OrderSettings.read(view.query)
    epoch = view.query.number("epoch", most=1 << 20) or 0
    named = [tag("input", type="hidden", name=k, value=v) for k, v in extent.query.items()]
    fields = [number_field("epoch", epoch), *settings.fields()[1:], tag("button", "when?")]
    asked = form("document", view.split, *named, *fields, class_="settings")
    try:
        visits = _visits(view, extent, settings, epoch)
    except (ValueError, TypeError) as error:
        visits = note(str(error))
    heading = tag("h2", f"When it is trained on, in epoch {epoch:,}")
    return tag("section", heading, asked, visits, id="when")


def _visits(view: View, extent: Extent, settings: OrderSettings, epoch: int) -> Html:
    loader = settings.loader(view.data)
    if settings.order == "random":
        draws = view.data.num_tokens // settings.block_size
        if draws * (epoch + 1) > MAX_WINDOWS_OF_RANDOM:
            return note(f"{draws:,} random draws are too many to look through.")
    visits = loader.when(tokens=(extent.start, extent.stop), epochs=[epoch])
    lines: list[tuple[object, ...]] = []
    for visit in visits[:MAX_VISITS]:
        there = {**settings.query(), "rank": visit.rank or None}
        link = address("batch", view.here, there, {"step": visit.step})
        step = tag("a", f"{visit.step:,}", href=f"{link}#row-{visit.row}", class_="number")
        lines.append((step, visit.rank, visit.row))
    if not lines:
        return note("In no step: it is after the last whole window.")
    words = f"{plural(len(visits), 'row')} with tokens of it as targets"
    if len(visits) > len(lines):
        words += f"; the first {len(lines)} of them"
    return join(tag("p", words + ":"), table(("step", "rank", "row"), lines, class_="visits"))
