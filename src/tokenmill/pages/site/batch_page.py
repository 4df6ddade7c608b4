"""Page: the batch of a step, row by row: its documents, positions, and where each row is from."""

from collections.abc import Iterator

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.batches.batch import Batch
from tokenmill.pages.elements.html import coloured, note
from tokenmill.pages.elements.plots import strip
from tokenmill.pages.site.frame import Page, pager
from tokenmill.pages.site.query import MAX_STEP, Fields, OrderSettings, address, form, number_field
from tokenmill.pages.site.routes import View

ROWS = 16
ROW_TOKENS = 320  # shown of a row, unless the row is asked for alone


def batch(view: View) -> Page:
    """The rows of a step on a rank; `row` shows one of them whole."""
    settings, query = OrderSettings.read(view.query), view.query
    step = query.number("step", 0, most=MAX_STEP)
    row = query.optional("row", most=settings.batch_size - 1)
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
    """The rows of a page, or one whole row, and links to the others."""
    count = len(made.tokens)
    if row is not None:
        yield _row(view, made, row, None)
        back = address("batch", here, {"first": row - row % ROWS})
        yield tag("p", tag("a", "all rows", href=f"{back}#row-{row}"))
        return
    first = view.query.number("first", 0, most=count - 1)
    stop = min(first + ROWS, count)
    for number in range(first, stop):
        yield _row(view, made, number, address("batch", here, {"row": number}))
    if count > ROWS:
        before = {"first": max(0, first - ROWS)} if first else None
        after = {"first": stop} if stop < count else None
        yield pager("batch", here, before, after, f"rows {first:,} to {stop - 1:,}")


def _summary(made: Batch) -> Html:
    """How many documents and masked targets the batch has."""
    if made.marks is None:
        return note("Nothing in this data says where documents end.")
    documents = int((made.marks.document_ids.max(axis=1) + 1).sum())
    masked = int((~made.marks.loss_mask).sum())
    return note(
        f"{plural(len(made.inputs), 'row')} of {made.inputs.shape[1]:,} inputs, "
        f"{plural(documents, 'document part')}; {masked:,} of {made.inputs.size:,} targets "
        "begin another document (masked when documents are kept apart). No padding."
    )


def _row(view: View, made: Batch, number: int, whole: str | None) -> Html:
    """One row: its place, its packing, its tokens; a part, if `whole` is where to see them all."""
    tokens, start = made.tokens[number], int(made.starts[number])
    limit = min(ROW_TOKENS, len(tokens)) if whole else len(tokens)
    extent = view.documents.at(start)
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
    packing, cuts = None, []
    if view.data.knows_documents:
        ends = view.data.document_ends(start, start + len(tokens) - 1)
        cuts = (ends - start).tolist()
        packing = strip(cuts, len(tokens))
    words = extent.name if start == extent.start else f"{extent.name}, continued"
    edges = {0: _edge(view, start, words)}
    for cut in (cut for cut in cuts if cut < limit):
        edges[cut] = _edge(view, start + cut, view.documents.beginning(start + cut).name)
    notes = [_note(made, number, column) for column in range(limit)]
    body = coloured(view.show_ids(tokens[:limit]), notes=notes, edges=edges)
    rest = None
    if limit < len(tokens):
        rest = tag("p", tag("a", f"{len(tokens) - limit:,} more tokens", href=whole))
    return tag("article", heading, packing, body, rest, id=f"row-{number}")


def _edge(view: View, position: int, words: str) -> Html:
    """Where a document begins or continues, with a link to it."""
    return tag("a", words, class_="edge", href=address("document", view.here, {"at": position}))


def _note(made: Batch, number: int, column: int) -> str:
    if column == made.inputs.shape[1]:
        return "the last target; no input"
    words, marks, place = f"input {column:,}", made.marks, (number, column)
    if marks is not None:
        words += f", position {marks.positions[place]:,} of part {marks.document_ids[place]:,}"
        if not marks.loss_mask[place]:
            words += "\nits target begins another document"
    return words
