"""run.html: one page about a run, for a browser on a desk or a phone; it needs nothing else.

And loss.svg, its curve: no plotting package, readable on light and dark pages. Both are written
again at every evaluation; what they show is in metrics.jsonl, edits.jsonl and config.json.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmill.base.markup import Html, Plot, join, number, tag, ticks
from tokenmill.batches.loader import BatchLoader
from tokenmill.pages.html import facts, offline_page, pair, section, table
from tokenmill.pages.plots import KINDS, NARROW, shard_use
from tokenmill.train.edits_file import words_of

STYLE = Path(__file__).parent / "files" / "loss.css"
LOSSES = Plot(720, 400, left=80, right=56, top=66, bottom=52, label_gap=(10, 22))
MOST_POINTS = 1500  # a curve is 720 pixels wide; more points only make the file larger
LEGEND_LINE = 28  # pixels
STRETCHES = 80  # of steps, in the picture of the sources
STRETCH_SAMPLES = 128  # at least, in each of them
SOURCES = replace(NARROW, top=34)
EDIT_NUMBERS = 64  # pixels between the numbers of two edits, at least

Points = Sequence[tuple[int, float]]


def make_run_page(
    title: str,
    losses: Mapping[str, Points],
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    trained_on: Html | None = None,
) -> str:
    """Return the page; `losses` are (step, loss) by their names.

    `rows` are those of metrics.jsonl, `trained_on` is the part about the data.
    """
    last = rows[-1]["step"] if rows else 0
    sample = next((row["sample"] for row in reversed(rows) if "sample" in row), None)
    curves = _curves(losses)
    picture = NARROW.svg(*_lines(NARROW, curves), label="Loss by step", class_="half")
    lowest = [min(points, key=lambda point: point[1]) for points in curves.values()]
    numbers = [
        (_key(place, name), f"{points[-1][1]:.4f}", f"{least:.4f}", step)
        for place, ((name, points), (step, least)) in enumerate(
            zip(curves.items(), lowest, strict=True)
        )
    ]
    given = {name: value for name, value in settings.items() if value is not None}
    more = tag("details", tag("summary", "Settings"), facts(given))
    body = join(
        tag("h1", title),
        tag("p", f"Step {last:,} of {settings.get('max_iters', 0):,}", class_="lead"),
        pair(
            section("Loss", picture),
            section("Losses", table(("loss", "last", "lowest", "at step"), numbers), more),
        ),
        trained_on,
        section("Sample", tag("div", sample, class_="tokens")) if sample else None,
    )
    return offline_page(f"{title} - tokenmill run", body)


def _key(place: int, name: str) -> Html:
    return join(tag("i", class_=f"key own p{place % KINDS}"), name)


def trained_part(loader: BatchLoader) -> Html:
    """Show what a run was trained on up to the step of its loader: sources, edits, shards."""
    usage = loader.usage()
    samples_per_step = loader.batch_size * loader.world_size
    steps = [edit["at"] // samples_per_step for edit in loader.edits]
    sources = [(_key(i, use.source), use.samples, use.epochs) for i, use in enumerate(usage)]
    changes = [
        (f"{place}. {words_of(edit, step)}", edit.get("note", ""))
        for place, (edit, step) in enumerate(zip(loader.edits, steps, strict=True), 1)
    ]
    edits = section("Edits", table(("what changed", "note"), changes)) if changes else None
    picture = _draw_sources(loader, steps) if loader.step else None
    counts = table(("source", "samples", "epochs"), sources)
    return join(
        pair(section("What it was trained on", picture, counts), *filter(None, [edits])),
        pair(*map(shard_use, usage)),
    )


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
    for place, (name, outline) in enumerate(zip(loader.names, outlines, strict=True)):
        corners = SOURCES.corners([*outline, *reversed(below)])
        kind = f"part p{place % KINDS}"
        areas.append(tag("polygon", tag("title", name), points=corners, class_=kind))
        below = outline
    return SOURCES.svg(
        SOURCES.grid((share, f"{share:.0%}") for share in (0, 0.5, 1)),
        *areas,
        *_edit_marks([step for step in edits if step <= end], last),
        SOURCES.below((tick / last, f"{tick:,g}") for tick in x_ticks),
        SOURCES.axis_name("step", SOURCES.height - 2),
        label="Share of each source by step",
        class_="half",
    )


def _edit_marks(edits: Sequence[int], last: float) -> Iterator[Html]:
    """Yield a line at each step with edits, and above it their numbers; of many that are close to
    each other, the first and the last."""
    groups: list[tuple[float, list[int]]] = []
    for place, step in enumerate(edits, 1):
        x = SOURCES.x(step / last)
        yield tag("line", class_="edit", x1=number(x), x2=number(x), y1=number(SOURCES.y(0)), y2=28)
        if not groups or x - groups[-1][0] >= EDIT_NUMBERS:
            groups.append((x, []))
        groups[-1][1].append(place)
    for x, places in groups:
        words = f"{places[0]}" if len(places) == 1 else f"{places[0]}-{places[-1]}"
        yield tag("text", words, x=number(x), y=23, class_="edit-number")


def draw_losses(title: str, losses: Mapping[str, Points]) -> str:
    """Return losses over steps as the text of an SVG file, with a line of the legend for each."""
    curves = _curves(losses)
    legend = LEGEND_LINE * len(curves)
    plot = replace(LOSSES, height=LOSSES.height + legend, top=LOSSES.top + legend)
    parts: list[object] = [
        tag("style", Html(STYLE.read_text(encoding="utf-8"))),
        tag("rect", class_="paper", width=plot.width, height=plot.height, rx=8),
        tag("text", title, class_="title", x=plot.left, y=32),
        tag("text", "loss", class_="tick left", x=plot.left - 10, y=plot.top - 30),
        *_lines(plot, curves),
    ]
    for place, (name, points) in enumerate(curves.items()):
        y = 32 + LEGEND_LINE * (place + 1)
        kind = f"curve p{place % KINDS}"
        parts.append(tag("path", class_=kind, d=f"M{plot.left},{y - 5} h28"))
        parts.append(tag("text", f"{name} {points[-1][1]:.3f}", x=plot.left + 36, y=y))
    size = {"width": plot.width, "height": plot.height, "xmlns": "http://www.w3.org/2000/svg"}
    return plot.svg(*parts, label=f"{title}: loss by step", **size) + "\n"


def _curves(losses: Mapping[str, Points]) -> dict[str, Points]:
    """Return those that have a number, without what is none."""
    numbers = {name: [p for p in points if p[1] == p[1]] for name, points in losses.items()}
    return {name: points for name, points in numbers.items() if points}


def _lines(plot: Plot, curves: Mapping[str, Points]) -> Iterable[Html]:
    """Yield axes and curves."""
    thin = [_thin(points) for points in curves.values()]
    everything = [point for points in thin for point in points] or [(0, 0.0)]
    x_ticks = ticks(0, max(step for step, _ in everything), whole=True)
    y_ticks = ticks(min(loss for _, loss in everything), max(loss for _, loss in everything))

    def height(loss: float) -> float:
        return (loss - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    yield plot.grid((height(tick), f"{tick:g}") for tick in y_ticks)
    yield plot.below((tick / x_ticks[-1], f"{tick:,g}") for tick in x_ticks)
    yield plot.axis_name("step", plot.height - 2)
    for place, points in enumerate(thin):
        corners = [(step / x_ticks[-1], height(loss)) for step, loss in points]
        if len(corners) == 1:
            corners *= 2  # a dot
        yield tag("path", class_=f"curve p{place % KINDS}", d=f"M{plot.corners(corners, ' L')}")


def _thin(points: Points) -> Points:
    """Return at most MOST_POINTS points: means over equal runs, the last one possibly shorter."""
    size = -(-len(points) // MOST_POINTS)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(run[-1][0], sum(loss for _, loss in run) / len(run)) for run in runs]
