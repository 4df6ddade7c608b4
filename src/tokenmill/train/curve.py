"""The loss curve as one SVG file: no plotting package, readable on light and dark pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tokenmill.base.markup import Html, Plot, tag, ticks

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
  stroke-width: 2.2; }
  .named { stroke: var(--val); stroke-width: 1.6; } .named-1 { stroke-dasharray: 7 4; }
  .named-2 { stroke-dasharray: 2 4; } .named-0 { stroke-dasharray: 10 3 2 3; }
"""
LEGEND_COLUMNS = 2
LEGEND_LINE = 28
LONGEST_NAME = 16  # of a curve


@dataclass(frozen=True)
class Curve:
    """One line of the picture; its kind is a class of the style sheet."""

    name: str
    kind: str
    points: Points


def draw(title: str, losses: Mapping[str, Points]) -> str:
    """Losses over steps as the text of an SVG file: `training`, `val`, other validation sets."""
    curves = [_curve(*item) for item in enumerate(losses.items())]
    curves = [curve for curve in curves if curve.points]
    everything = [point for curve in curves for point in curve.points] or [(0, 0.0)]
    legend_height = LEGEND_LINE * -(-len(curves) // LEGEND_COLUMNS)
    plot = replace(PLOT, height=PLOT.height + legend_height, top=PLOT.top + legend_height)
    x_ticks = ticks(0, max(step for step, _ in everything), whole=True)
    y_ticks = ticks(min(loss for _, loss in everything), max(loss for _, loss in everything))

    def height(loss: float) -> float:
        return (loss - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    parts: list[object] = [
        tag("style", Html(STYLE)),
        tag("rect", class_="paper", width=plot.width, height=plot.height, rx=8),
        tag("text", title, class_="title", x=plot.left, y=32),
        plot.grid((height(tick), f"{tick:g}") for tick in y_ticks),
        plot.below((tick / x_ticks[-1], f"{tick:,g}") for tick in x_ticks),
        plot.axis_name("step", plot.height - 8),
        tag("text", "loss", class_="tick left", x=plot.left - 10, y=plot.top - 30),
        *_legend(curves),
    ]
    for curve in curves:
        points = curve.points if len(curve.points) > 1 else [*curve.points, *curve.points]  # a dot
        corners = plot.corners(((s / x_ticks[-1], height(v)) for s, v in points), " L")
        parts.append(tag("path", class_=curve.kind, d=f"M{corners}"))
    return (
        plot.svg(
            *parts,
            label=f"{title}: loss by step",
            xmlns="http://www.w3.org/2000/svg",
            width=plot.width,
            height=plot.height,
        )
        + "\n"
    )


def _curve(number: int, named: tuple[str, Points]) -> Curve:
    name, points = named
    points = [point for point in points if point[1] == point[1]]  # NaN is not on the axis
    if name == "training":
        return Curve(name, "train", _thin(points))
    if name == "val":
        return Curve("validation", "val", points)
    return Curve(name, f"named named-{number % 3} n{number}", points)


def _legend(curves: Sequence[Curve]) -> list[Html]:
    """The name of each curve and its last value, below the title, so that no name is too long."""
    parts = []
    width = (PLOT.width - PLOT.left - PLOT.right) // LEGEND_COLUMNS
    for number, curve in enumerate(curves):
        line, column = divmod(number, LEGEND_COLUMNS)
        x = PLOT.left + column * width
        y = 32 + LEGEND_LINE * (line + 1)
        parts.append(tag("path", class_=curve.kind, d=f"M{x},{y - 5} h28"))
        name = curve.name
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 1] + "\u2026"
        parts.append(tag("text", f"{name} {curve.points[-1][1]:.3f}", x=x + 36, y=y))
    return parts


def _thin(points: Points) -> Points:
    """At most MOST_POINTS points: means over equal runs, the last run possibly shorter."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) // MOST_POINTS)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(run[-1][0], sum(v for _, v in run) / len(run)) for run in runs]
