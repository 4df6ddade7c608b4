"""Page: the batch of a step, row by row: its documents, positions, and where each row is from."""

import numpy as np

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.batches.batch import Batch
from tokenmill.pages.elements.find_documents import Extent
from tokenmill.pages.elements.html import coloured, note
from tokenmill.pages.elements.plots import strip
from tokenmill.pages.site.frame import Page, pager
from tokenmill.pages.site.query import MAX_STEP, OrderSettings, address, form, number_field
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
        loader = settings.loader(view.data)
        made = loader.batch(step)
    except (ValueError, TypeError) as error:
        return Page(title, join(asked, tag("p", str(error), class_="card bad")), 400)
    rows = BatchRows(view, settings, made)
    first = query.number("first", 0, most=settings.batch_size - 1)
    chosen = range(first, min(first + ROWS, settings.batch_size)) if row is None else [row]
    steps = pager(
        _link(view, settings, step - 1) if step else None,
        _link(view, settings, step + 1),
        f"step {step:,}, rank {settings.rank:,} of {settings.world_size:,}, samples "
        f"{int(made.samples[0]):,} to {int(made.samples[-1]):,}",
    )
    shown = [rows.row(number, whole=row is not None) for number in chosen]
    return Page(
        title, join(asked, steps, rows.summary(), *shown, _more(view, settings, step, chosen))
    )


def _link(view: View, settings: OrderSettings, step: int, **more: int) -> str:
    return address("batch", view.here, settings.query(), {"step": step}, more)


def _more(
    view: View, settings: OrderSettings, step: int, chosen: "range | list[int]"
) -> Html | None:
    if isinstance(chosen, list):
        back = _link(view, settings, step, first=chosen[0] - chosen[0] % ROWS)
        return tag("p", tag("a", "all rows", href=f"{back}#row-{chosen[0]}"))
    if settings.batch_size <= ROWS:
        return None
    before = (
        _link(view, settings, step, first=max(0, chosen.start - ROWS)) if chosen.start else None
    )
    last = chosen.stop == settings.batch_size
    after = None if last else _link(view, settings, step, first=chosen.stop)
    return pager(before, after, f"rows {chosen.start:,} to {chosen.stop - 1:,}")


class BatchRows:
    """The rows of one batch as HTML."""

    def __init__(self, view: View, settings: OrderSettings, made: Batch) -> None:
        self.view, self.settings, self.made = view, settings, made
        self.step = made.step

    def summary(self) -> Html | None:
        """How many documents and masked targets the batch has."""
        made = self.made
        if made.document_ids is None or made.loss_mask is None:
            return note("Nothing in this data says where documents end.")
        documents = int((made.document_ids.max(axis=1) + 1).sum())
        masked = int((~made.loss_mask).sum())
        words = (
            f"{plural(len(made.tokens), 'row')} of {self.settings.block_size:,} inputs, "
            f"{plural(documents, 'document part')}; {masked:,} of {made.loss_mask.size:,} targets "
            "begin another document (masked when documents are kept apart). No padding."
        )
        return note(words)

    def row(self, number: int, *, whole: bool) -> Html:
        """One row: its place, its packing, its tokens."""
        view, made = self.view, self.made
        tokens = made.tokens[number]
        start, stop = int(made.starts[number]), int(made.starts[number]) + len(tokens)
        extent = view.documents.at(start)
        found = view.documents.place(start, extent)
        limit = len(tokens) if whole else min(ROW_TOKENS, len(tokens))
        link = address("document", view.here, {"at": start})
        place = [tag("b", f"row {number}"), f"sample {int(made.samples[number]):,}", found.file]
        place.append(f"token {found.offset:,}")
        inside = f", token {start - extent.start:,}" if extent.whole else ""
        place.append(join(tag("a", extent.name, href=link), inside))
        heading = tag("h2", *(tag("span", part) for part in place), class_="row")
        ends = view.data.document_ends(start, stop - 1) if view.data.knows_documents else None
        cuts = [] if ends is None else (ends - start).tolist()
        body = coloured(
            view.show_ids(tokens[:limit]),
            notes=[self._note(number, column) for column in range(limit)],
            edges={0: self._edge(extent, start), **self._edges(start, cuts, limit)},
        )
        rest = None
        if limit < len(tokens):
            whole_row = _link(view, self.settings, self.step, row=number)
            rest = tag("p", tag("a", f"{len(tokens) - limit:,} more tokens", href=whole_row))
        packing = strip(cuts, len(tokens)) if ends is not None else None
        return tag("article", heading, packing, body, rest, id=f"row-{number}")

    def _edge(self, extent: Extent, start: int) -> Html:
        words = extent.name if start == extent.start else f"{extent.name}, continued"
        link = address("document", self.view.here, {"at": start})
        return tag("a", words, class_="edge", href=link)

    def _edges(self, start: int, cuts: list[int], limit: int) -> dict[int, Html]:
        """Where another document begins, with a link to it."""
        edges = {}
        for cut in cuts:
            if cut >= limit:
                break
            extent = self.view.documents.beginning(start + cut)
            link = address("document", self.view.here, {"at": start + cut})
            edges[cut] = tag("a", extent.name, class_="edge", href=link)
        return edges

    def _note(self, number: int, column: int) -> str:
        made = self.made
        if column == self.settings.block_size:
            return "the last target; no input"
        words = f"input {column:,}"
        if made.positions is not None and made.document_ids is not None:
            position, document = made.positions[number, column], made.document_ids[number, column]
            words += f", position {int(position):,} of part {int(document):,}"
        if made.loss_mask is not None and not bool(np.asarray(made.loss_mask[number, column])):
            words += "\nits target begins another document"
        return words
