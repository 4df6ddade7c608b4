"""Page: the batch of a step, row by row: its documents, positions, and where each row is from."""

from collections.abc import Iterator

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.batches.batch import Batch
from tokenmill.pages.find_documents import holding
from tokenmill.pages.html import coloured, note
from tokenmill.pages.plots import strip
from tokenmill.pages.query import MAX_STEP, Fields, OrderSettings, address, form, number_field
from tokenmill.pages.routes import Page, View, pager

ROWS = 16
ROW_TOKENS = 320  # shown of a row, unless the row is asked for alone


def batch(view: View) -> Page:
    """The rows of a step on a rank; `row` shows one of them whole."""
    settings = OrderSettings.read(view.query)
    step = view.query.number("step", most=MAX_STEP) or 0
    row = view.query.number("row", most=settings.batch_size - 1)
    title = f"Batch of step {step:,}" + ("" if row is None else f", row {row:,}")
    fields = [number_field("step", step), *settings.fields(), tag("button", "show")]
    asked = form("batch", view.split, *fields, class_="settings")
    try:
        made = settings.loader(view.data).batch(step)
    except (ValueError, TypeError) as error:
        return Page(title, join(asked, tag("p", str(error), class_="card bad")), 400)
    here = view.here | settings.query()
    steps = pager(
        "batch",
        here,
        {"step": step - 1} if step else None,
        {"step": step + 1},
        f"step {step:,}, rank {settings.rank:,} of {settings.world_size:,}, samples "
        f"{int(made.samples[0]):,} to {int(made.samples[-1]):,}",
    )
    rows = _rows(view, made, here | {"step": step}, row)
    return Page(title, join(asked, steps, _summary(made), *rows))


def _rows(view: View, made: Batch, here: Fields, row: int | None) -> Iterator[Html]:
    count = len(made.tokens)
    if row is not None:
        yield _row(view, made, row, None)
        back = address("batch", here, {"first": row - row % ROWS})
        yield tag("p", tag("a", "all rows", href=f"{back}#row-{row}"))
        return
    first = view.query.number("first", most=count - 1) or 0
    stop = min(first + ROWS, count)
    for number in range(first, stop):
        yield _row(view, made, number, address("batch", here, {"row": number}))
    if count > ROWS:
        before = {"first": max(0, first - ROWS)} if first else None
        after = {"first": stop} if stop < count else None
        yield pager("batch", here, before, after, f"rows {first:,} to {stop - 1:,}")


def _summary(made: Batch) -> Html:
    if made.marks is None:
        return note("Nothing in this data says where documents end.")
    segments = made.marks.segments
    documents = int((segments.max(axis=1) + 1).sum())
    padding = int((segments < 0).sum())
    begin = int((~made.marks.loss_mask & (segments[:, 1:] >= 0)).sum())
    return note(
        f"{plural(len(made.inputs), 'row')} of {made.inputs.shape[1]:,} inputs, "
        f"{plural(documents, 'document part')}; {begin:,} of {made.inputs.size:,} targets "
        "begin another document (masked when documents are kept apart). "
        f"{f'Padding: {padding:,} of {segments.size:,} tokens' if padding else 'No padding'}."
    )


def _row(view: View, made: Batch, number: int, whole: str | None) -> Html:
    """One row: its place, its packing, its tokens; a part, if `whole` is where to see them all."""
    tokens = made.tokens[number]
    parts = list(_parts(view, made, number))
    start = parts[0][1]
    filled = int(made.spans.filled[number])
    limit = min(ROW_TOKENS, filled) if whole else filled
    extent = holding(view.data, start)
    file, offset = view.file_of(start)
    link = address("document", view.here, {"at": start})
    inside = f", token {start - extent.start:,}" if extent.whole else ""
    place = [
        tag("b", f"row {number}"),
        f"sample {int(made.samples[number]):,}",
        file,
        f"token {offset:,}",
        join(tag("a", extent.name, href=link), inside),
    ]
    heading = tag("h2", *(tag("span", part) for part in place), class_="row")
    columns = [column for column, _ in parts]
    packing = strip(columns, len(tokens), filled) if view.data.knows_documents else None
    edges = {column: _edge(view, position) for column, position in parts if column < limit}
    notes = [_note(made, number, column) for column in range(limit)]
    loss = (made.columns or {}).get("loss")
    targets = None if loss is None else loss[number, :limit]
    shown = view.site.shown(view.data, tokens[:limit], targets)
    body = coloured(shown, notes=notes, edges=edges)
    rest = None
    if limit < filled:
        rest = tag("p", tag("a", f"{filled - limit:,} more tokens", href=whole))
    padding = None if filled == len(tokens) else note(f"{len(tokens) - filled:,} of padding")
    return tag("article", heading, packing, body, rest, padding, id=f"row-{number}")


def _parts(view: View, made: Batch, number: int) -> Iterator[tuple[int, int]]:
    """(column, position on the axis) of each document in a row: its spans, cut where one ends."""
    spans = made.spans.between(number, number + 1)
    tables = (spans.column - spans.after_begin, spans.start, spans.length)
    for column, start, length in zip(*(each.tolist() for each in tables), strict=True):
        yield column, start
        if view.data.knows_documents:
            for end in view.data.document_ends(start, start + length - 1).tolist():
                yield column + end - start, end


def _edge(view: View, position: int) -> Html:
    extent = holding(view.data, position)
    words = extent.name if position == extent.start else f"{extent.name}, continued"
    link = address("document", view.here, {"at": position})
    return tag("a", words, class_="edge", href=link)


def _note(made: Batch, number: int, column: int) -> str:
    if column == made.inputs.shape[1]:
        return "the last target; no input"
    words = f"input {column:,}"
    marks = made.marks
    if marks is None:
        return words
    part = marks.document_ids[number, column]
    words += f", position {marks.positions[number, column]:,} of part {part:,}"
    if not marks.loss_mask[number, column]:
        words += "\nno loss: its target begins another document, or is padding"
    return words
