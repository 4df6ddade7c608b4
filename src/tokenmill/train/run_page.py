"""run.html: one page about a run, for a browser on a desk or a phone; it needs nothing else.

And loss.svg, its curve: no plotting package, readable on light and dark pages. Both are written
again at every evaluation; what they show is in metrics.jsonl, edits.jsonl and config.json.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, Plot, column_chart, join, number, tag, ticks, whole_page
from tokenmill.batches.loader import BatchLoader
from tokenmill.edits.usage import SourceUsage
from tokenmill.train.edits_file import words_of

LOSSES = Plot(720, 400, left=64, right=24, top=66, bottom=52, label_gap=(10, 22))
MOST_POINTS = 1500  # a curve is 720 pixels wide; more points only make the file larger

Points = Sequence[tuple[int, float]]

CURVE_KINDS = {"training": "train", "val": "val"}  # classes of the style sheet; others are `named`
LEGEND_LINE = 28  # pixels
STRETCHES = 80  # of steps, in the picture of the sources
STRETCH_SAMPLES = 128  # at least, in each of them
SOURCES = Plot(720, 240, left=64, right=24, top=34, bottom=46, label_gap=(10, 22))
SHARDS = Plot(720, 200, left=64, right=24, top=14, bottom=14, label_gap=(10, 16))
NUM_COLOURS = 8  # c0 to c7 in run.css
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def make_run_page(
    title: str,
    picture: str,
    losses: Mapping[str, Points],
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    trained_on: Html | None = None,
) -> str:
    """Return the page; `picture` is the curve as SVG, `losses` are (step, loss) by their names.

    `rows` are those of metrics.jsonl, `trained_on` is the part about the data.
    """
    last = rows[-1]["step"] if rows else 0
    sample = next((row["sample"] for row in reversed(rows) if "sample" in row), None)
    body = join(
        tag("h1", title),
        tag("p", f"Step {last:,} of {settings.get('max_iters', 0):,}"),
        tag("figure", Html(picture)),
        _table(("loss", "last", "lowest", "at step"), _loss_rows(losses)),
        trained_on,
        join(tag("h2", "Sample"), tag("pre", sample)) if sample else None,
        tag("details", tag("summary", "Settings"), _table((), settings.items(), class_=None)),
    )
    head = join(
        tag("meta", http_equiv="Content-Security-Policy", content=Html(POLICY)),
        _style("run.css"),
    )
    return whole_page(f"{title} - tokenmill run", head, tag("body", body))


def _style(name: str) -> Html:
    return tag("style", Html((Path(__file__).parent / "files" / name).read_text(encoding="utf-8")))


def trained_part(loader: BatchLoader) -> Html:
    """Show what a run was trained on up to the step of its loader: sources, edits, shards."""
    usage = loader.usage()
    samples_per_step = loader.batch_size * loader.world_size
    steps = [edit["at"] // samples_per_step for edit in loader.edits]
    sources = ((use.source, f"{use.samples:,}", f"{use.epochs:.3g}") for use in usage)
    changes = [
        (f"{place}. {words_of(edit, step)}", edit.get("note", ""))
        for place, (edit, step) in enumerate(zip(loader.edits, steps, strict=True), 1)
    ]
    return join(
        tag("h2", "What it was trained on"),
        tag("figure", _draw_sources(loader, steps)) if loader.step else None,
        _table(("source", "samples", "epochs"), sources),
        tag("h2", "Edits") if changes else None,
        _table(("what changed", "note"), changes, class_=None) if changes else None,
        tag("h2", "Use of the shards"),
        *map(_draw_shards, usage),
    )


def _table(
    names: Sequence[str], rows: Iterable[Sequence[object]], class_: str | None = "n"
) -> Html:
    """Return a table; `class_` is that of all columns but the first: "n" for numbers."""

    def line(kind: str, cells: Sequence[object]) -> Html:
        first, *others = cells
        return tag("tr", tag(kind, first), *(tag(kind, cell, class_=class_) for cell in others))

    head = tag("thead", line("th", names)) if names else None
    return tag("table", head, tag("tbody", *(line("td", row) for row in rows)))


def _loss_rows(losses: Mapping[str, Points]) -> Iterable[Sequence[str]]:
    for name, points in losses.items():
        points = _without_nan(points)
        if points:
            step, lowest = min(points, key=lambda point: point[1])
            yield name, f"{points[-1][1]:.4f}", f"{lowest:.4f}", f"{step:,}"


def _draw_sources(loader: BatchLoader, edits: Sequence[int]) -> Html:
    """Draw the share of each source by step, and a line at the step of each edit."""
    end = loader.step
    samples = end * loader.batch_size * loader.world_size
    count = max(1, min(STRETCHES, samples // STRETCH_SAMPLES, end))
    edges = {end * i // count for i in range(count + 1)} | {step for step in edits if step < end}
    steps = sorted(edges)
    x_ticks = ticks(0, end, whole=True)
    last = x_ticks[-1]  # the axis is that of the losses
    before: list[list[int]] = [
        [use.samples for use in loader.usage(step, shards=False)] for step in steps
    ]
    outlines: list[list[tuple[float, float]]] = [[] for _ in loader.names]
    for i in range(len(steps) - 1):
        served = [after - start for start, after in zip(before[i], before[i + 1], strict=True)]
        top = 0.0
        for outline, number_of_samples in zip(outlines, served, strict=True):
            top += number_of_samples / max(sum(served), 1)
            outline += [(steps[i] / last, top), (steps[i + 1] / last, top)]
    below = [(0.0, 0.0), (end / last, 0.0)]
    areas = []
    keys = []
    for place, (name, outline) in enumerate(zip(loader.names, outlines, strict=True)):
        colour = f"c{place % NUM_COLOURS}"
        corners = SOURCES.corners([*outline, *reversed(below)])
        areas.append(tag("polygon", tag("title", name), points=corners, class_=colour))
        keys.append(join(tag("i", class_=f"key {colour}"), name))
        below = outline
    picture = SOURCES.svg(
        SOURCES.grid((share, f"{share:.0%}") for share in (0, 0.5, 1)),
        *areas,
        *_edit_marks([step for step in edits if step <= end], last),
        SOURCES.below((tick / last, f"{tick:,g}") for tick in x_ticks),
        SOURCES.axis_name("step", SOURCES.height - 4),
        label="Share of each source by step",
    )
    return join(picture, tag("p", *keys))


def _edit_marks(edits: Sequence[int], last: float) -> Iterable[Html]:
    """Yield a line at each step with edits, and their numbers above it."""
    for step in sorted(set(edits)):
        x = number(SOURCES.x(step / last))
        numbers = ", ".join(str(place) for place, at in enumerate(edits, 1) if at == step)
        bottom = number(SOURCES.y(0))
        yield tag("line", class_="edit", x1=x, x2=x, y1=bottom, y2=SOURCES.top - 6)
        yield tag("text", numbers, x=x, y=SOURCES.top - 11, class_="edit-number")


def _draw_shards(source: SourceUsage) -> Html:
    used = [shard.epochs for shard in source.shards]
    words = (
        f"{source.source}: the tokens of its {plural(len(used), 'shard')} were a target "
        f"{min(used):.3g} to {max(used):.3g} times"
    )
    parts = [(shard.file, shard.epochs) for shard in source.shards]
    label = f"Use of the shards of {source.source}"
    chart = column_chart(SHARDS, parts, unit="times", label=label)
    return tag("figure", tag("figcaption", words), chart)


def draw_losses(title: str, losses: Mapping[str, Points]) -> str:
    """Return losses over steps as the text of an SVG file, with a line of the legend for each."""
    numbers = {name: _without_nan(points) for name, points in losses.items()}
    curves = {name: _thin(points) for name, points in numbers.items() if points}
    everything = [point for points in curves.values() for point in points] or [(0, 0.0)]
    legend = LEGEND_LINE * len(curves)
    plot = replace(LOSSES, height=LOSSES.height + legend, top=LOSSES.top + legend)
    x_ticks = ticks(0, max(step for step, _ in everything), whole=True)
    y_ticks = ticks(min(loss for _, loss in everything), max(loss for _, loss in everything))

    def height(loss: float) -> float:
        return (loss - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    parts: list[object] = [
        _style("loss.css"),
        tag("rect", class_="paper", width=plot.width, height=plot.height, rx=8),
        tag("text", title, class_="title", x=plot.left, y=32),
        plot.grid((height(tick), f"{tick:g}") for tick in y_ticks),
        plot.below((tick / x_ticks[-1], f"{tick:,g}") for tick in x_ticks),
        plot.axis_name("step", plot.height - 8),
        tag("text", "loss", class_="tick left", x=plot.left - 10, y=plot.top - 30),
    ]
    for place, (name, points) in enumerate(curves.items()):
        kind = CURVE_KINDS.get(name, "named")
        colour = f"stroke: hsl({place * 137 % 360} 65% 50%)" if kind == "named" else None
        y = 32 + LEGEND_LINE * (place + 1)
        corners = [(step / x_ticks[-1], height(loss)) for step, loss in points]
        if len(corners) == 1:
            corners *= 2  # a dot
        for line in (f"M{plot.corners(corners, ' L')}", f"M{plot.left},{y - 5} h28"):
            parts.append(tag("path", class_=kind, style=colour, d=line))
        parts.append(tag("text", f"{name} {points[-1][1]:.3f}", x=plot.left + 36, y=y))
    size = {"width": plot.width, "height": plot.height, "xmlns": "http://www.w3.org/2000/svg"}
    return plot.svg(*parts, label=f"{title}: loss by step", **size) + "\n"


def _without_nan(points: Points) -> Points:
    return [point for point in points if point[1] == point[1]]


def _thin(points: Points) -> Points:
    """Return at most MOST_POINTS points: means over equal runs, the last one possibly shorter."""
    size = -(-len(points) // MOST_POINTS)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(run[-1][0], sum(loss for _, loss in run) / len(run)) for run in runs]
