"""The loss curve as one SVG file: no plotting package, readable on light and dark pages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
  .named { stroke-width: 1.6; }
"""
KINDS = {"training": "train", "val": "val"}  # classes of the style sheet; others are `named`
LEGEND_LINE = 28  # pixels


def draw(title: str, losses: Mapping[str, Points]) -> str:
    """Return losses over steps as the text of an SVG file, with a line of the legend for each."""
    numbers = {name: _without_nan(points) for name, points in losses.items()}
    curves = {name: _thin(points) for name, points in numbers.items() if points}
    everything = [point for points in curves.values() for point in points] or [(0, 0.0)]
    legend = LEGEND_LINE * len(curves)
    plot = replace(PLOT, height=PLOT.height + legend, top=PLOT.top + legend)
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
    ]
    for number, (name, points) in enumerate(curves.items()):
        kind = KINDS.get(name, "named")
        colour = f"stroke: hsl({number * 137 % 360} 65% 50%)" if kind == "named" else None
        y = 32 + LEGEND_LINE * (number + 1)
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
