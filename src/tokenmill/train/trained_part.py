"""The part of a run's page that says what was trained on and when: sources, edits, shards."""

from collections.abc import Iterable, Sequence

from tokenmill.base.markup import Html, Plot, column_chart, join, tag
from tokenmill.batches.loader import BatchLoader
from tokenmill.edits.usage import SourceUsage
from tokenmill.train.edit_words import words_of
from tokenmill.train.sources_plot import STYLE as SOURCES_STYLE
from tokenmill.train.sources_plot import draw_sources

STRETCHES = 80  # of steps, in the picture of the sources
STRETCH_SAMPLES = 128  # at least, in each of them
SHARDS = Plot(720, 200, left=64, right=24, top=14, bottom=14, label_gap=(10, 16))
STYLE = (
    SOURCES_STYLE
    + """
  .bar { fill: #4f7fc4; } .axis, .grid { stroke: #8886; } .grid { stroke-dasharray: 2 4; }
"""
)


def trained_part(loader: BatchLoader, usage: Sequence[SourceUsage]) -> Html:
    """Show what a run was trained on up to the present step of its loader, as `usage` is."""
    at = [edit["at"] // _samples_per_step(loader) for edit in loader.edits]
    return join(
        tag("h2", "What it was trained on"),
        tag("figure", _picture(loader, at)) if loader.step else None,
        _sources(usage),
        _edits(loader, at),
        tag("h2", "Use of the shards"),
        *(_shards(source) for source in usage),
    )


def _samples_per_step(loader: BatchLoader) -> int:
    return loader.batch_size * loader.world_size


def _picture(loader: BatchLoader, edits: Sequence[int]) -> Html:
    end = loader.step
    count = max(1, min(STRETCHES, end * _samples_per_step(loader) // STRETCH_SAMPLES, end))
    even = {end * i // count for i in range(count + 1)}
    steps = sorted(even | {step for step in edits if step < end})
    counts: dict[str, list[int]] = {name: [] for name in loader.names}
    for step in steps:
        for source in loader.usage(step, shards=False):
            counts[source.source].append(source.samples)
    return draw_sources(steps, counts, [step for step in edits if step <= end])


def _sources(usage: Sequence[SourceUsage]) -> Html:
    rows = ((u.source, f"{u.samples:,}", f"{u.epochs:.3g}") for u in usage)
    return _table(("source", "samples", "epochs"), rows, unbroken=("samples", "epochs"))


def _edits(loader: BatchLoader, at: Sequence[int]) -> Html | None:
    if not at:
        return None
    rows = (
        (f"{number}. {words_of(edit, step)}", edit.get("note", ""))
        for number, (edit, step) in enumerate(zip(loader.edits, at, strict=True), 1)
    )
    return join(tag("h2", "Edits"), _table(("what changed", "note"), rows))


def _shards(source: SourceUsage) -> Html:
    used = [shard.epochs for shard in source.shards]
    if len(used) == 1:
        return tag(
            "p", f"{source.source}: the tokens of its shard were a target {used[0]:.3g} times"
        )
    words = (
        f"{source.source}: how often the tokens of each of its {len(used):,} shards were a target, "
        f"{min(used):.3g} to {max(used):.3g} times"
    )
    parts = [(shard.file, shard.epochs) for shard in source.shards]
    label = f"Use of the shards of {source.source}"
    chart = column_chart(SHARDS, parts, unit="times", label=label)
    return tag("figure", tag("figcaption", words), chart)


def _table(
    names: Sequence[str], rows: Iterable[Sequence[str]], *, unbroken: Sequence[str] = ()
) -> Html:
    """A table; columns that are `unbroken` are numbers, at the right."""
    classes = ["n" if name in unbroken else None for name in names]

    def line(kind: str, cells: Sequence[str]) -> Html:
        of_columns = zip(cells, classes, strict=True)
        return tag("tr", *(tag(kind, cell, class_=class_) for cell, class_ in of_columns))

    head = tag("thead", line("th", names))
    return tag("table", head, tag("tbody", *(line("td", row) for row in rows)))
