"""The loss curve as one SVG file: no plotting package, readable on light and dark pages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tokenmill.base.markup import Html, Plot, number, tag, ticks

PLOT = Plot(720, 400, left=64, right=24, top=66, bottom=52, label_gap=(10, 22))
MOST_POINTS = 1500  # a curve is 720 pixels wide; more points only make the file larger

Points = Sequence[tuple[int, float]]

STYLE = """
  svg { --paper: #ffffff; --ink: #1f2328; --faint: #6a737d; --grid: #e6e8eb;
        --train: #8fb4e8; --val: #d1570c;
        font: 13px system-ui, -apple-system, "Segoe UI", sans-serif;
        max-width: 100%; height: auto; }
  @media (max-width: 520px) { svg { font-size: 21px; } .title { font-size: 25px !important; } }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #14171c; --ink: #e6e8eb; --faint: #9aa3ad; --grid: #2a2f37;
          --train: #4f7fc4; --val: #ff9d57; } }
  .paper { fill: var(--paper); } .grid { stroke: var(--grid); } .title { font-size: 16px;
  font-weight: 600; } text { fill: var(--ink); }
  .tick { fill: var(--faint); text-anchor: middle; } .tick.left, .tick.right { text-anchor: end; }
  .left { transform: translateY(4px); }
  path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
  .train { stroke: var(--train); stroke-width: 1.4; } .val { stroke: var(--val);
  stroke-width: 2.2; } .dot { fill: var(--val); }
  .named { stroke: var(--val); stroke-width: 1.6; } .named-1 { stroke-dasharray: 7 4; }
  .named-2 { stroke-dasharray: 2 4; } .named-0 { stroke-dasharray: 10 3 2 3; }
"""
LEGEND_COLUMNS, LEGEND_LINE = 2, 28
LONGEST_NAME = 16  # of a curve


def draw(title: str, train: Points, val: Points, named: Mapping[str, Points] | None = None) -> str:
    """Training and validation loss over steps, as the text of an SVG file.

    `named` are the losses on validation sets with a name of their own.
    """
    train = _thin([p for p in train if p[1] == p[1]])  # a NaN has no place on an axis
    val = [p for p in val if p[1] == p[1]]
    named = {name: [p for p in points if p[1] == p[1]] for name, points in (named or {}).items()}
    everything = [*train, *val, *(point for points in named.values() for point in points)]
    steps, losses = [s for s, _ in everything] or [0], [v for _, v in everything] or [0.0]
    curves = {"val": ("validation", val), "train": ("training", train)}
    for at, (name, points) in enumerate(named.items(), 1):
        curves[f"named named-{at % 3} n{at}"] = (name, points)
    curves = {kind: curve for kind, curve in curves.items() if curve[1]}
    more = LEGEND_LINE * -(-len(curves) // LEGEND_COLUMNS)
    plot = replace(PLOT, height=PLOT.height + more, top=PLOT.top + more)
    x_ticks = ticks(0, max(max(steps), 1), whole=True)
    y_ticks = ticks(min(losses), max(losses))
    x_max, y_min, y_max = max(x_ticks[-1], max(steps)), y_ticks[0], y_ticks[-1]

    def places(points: Points) -> list[tuple[float, float]]:
        return [(step / x_max, (loss - y_min) / (y_max - y_min)) for step, loss in points]

    parts: list[object] = [
        tag("style", Html(STYLE)),
        tag("rect", class_="paper", width=plot.width, height=plot.height, rx=8),
        tag("text", title, class_="title", x=plot.left, y=32),
        plot.grid(((tick - y_min) / (y_max - y_min), f"{tick:g}") for tick in y_ticks),
        plot.below((tick / x_max, f"{tick:,g}") for tick in x_ticks),
        plot.axis_name("step", plot.height - 8),
        tag("text", "loss", class_="tick left", x=plot.left - 10, y=plot.top - 30),
        *_legend(curves),
    ]
    for kind, (_, points) in reversed(curves.items()):
        parts.append(tag("path", class_=kind, d=f"M{plot.corners(places(points), ' L')}"))
    for x, y in places(val if len(val) <= 40 else val[-1:]):
        parts.append(tag("circle", class_="dot", cx=number(plot.x(x)), cy=number(plot.y(y)), r=3))
    size = {"width": plot.width, "height": plot.height}
    label = f"{title}: loss by step"
    return plot.svg(*parts, label=label, xmlns="http://www.w3.org/2000/svg", **size) + "\n"


def _legend(curves: Mapping[str, tuple[str, Points]]) -> list[Html]:
    """What each curve is, with its last value; below the title, so that no name is too long."""
    parts, column = [], (PLOT.width - PLOT.left - PLOT.right) // LEGEND_COLUMNS
    for at, (kind, (name, points)) in enumerate(curves.items()):
        line, place = divmod(at, LEGEND_COLUMNS)
        x, y = PLOT.left + place * column, 32 + LEGEND_LINE * (line + 1)
        parts.append(tag("path", class_=kind, d=f"M{x},{y - 5} h28"))
        shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "\u2026"
        parts.append(tag("text", f"{shown} {points[-1][1]:.3f}", x=x + 36, y=y))
    return parts


def _thin(points: Points) -> Points:
    """At most MOST_POINTS points: means over equal runs, the last run possibly shorter."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) // MOST_POINTS)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(run[-1][0], sum(v for _, v in run) / len(run)) for run in runs]
