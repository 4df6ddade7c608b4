"""The loss curve as one SVG file: no plotting package, readable on light and dark pages."""

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tokenmill.base.atomic import write_atomically

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 48
MOST_POINTS = 1500  # a curve is 720 pixels wide; more points only make the file larger

Points = Sequence[tuple[int, float]]

STYLE = """
  svg { --paper: #ffffff; --ink: #1f2328; --faint: #6a737d; --grid: #e6e8eb;
        --train: #8fb4e8; --val: #d1570c;
        font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #14171c; --ink: #e6e8eb; --faint: #9aa3ad; --grid: #2a2f37;
          --train: #4f7fc4; --val: #ff9d57; } }
  .paper { fill: var(--paper); } .grid { stroke: var(--grid); } .title { font-size: 16px;
  font-weight: 600; } text { fill: var(--ink); } .faint { fill: var(--faint); }
  path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
  .train { stroke: var(--train); stroke-width: 1.4; } .val { stroke: var(--val);
  stroke-width: 2.2; } .dot { fill: var(--val); }
"""


def write_curve(path: Path, *, title: str, train: Points, val: Points) -> None:
    """Draw training and validation loss over steps into `path`, replacing it whole."""
    write_atomically(path, draw(title, train, val).encode(), durable=False)


def draw(title: str, train: Points, val: Points) -> str:
    """The picture as text."""
    train = _thin([p for p in train if p[1] == p[1]])  # a NaN has no place on an axis
    val = [p for p in val if p[1] == p[1]]
    steps = [s for s, _ in [*train, *val]] or [0]
    losses = [v for _, v in [*train, *val]] or [0.0]
    x_ticks = ticks(0, max(max(steps), 1), whole=True)
    y_ticks = ticks(min(losses), max(losses))
    x_max, y_min, y_max = max(x_ticks[-1], max(steps)), y_ticks[0], y_ticks[-1]

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / x_max

    def y(loss: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (loss - y_min) / (y_max - y_min)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}: loss by step">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="32">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/><text class="faint" x="{LEFT - 10}" y="{y(tick) + 4:.1f}" '
            f'text-anchor="end">{tick:g}</text>'
        )
    for tick in x_ticks:
        parts.append(
            f'<text class="faint" x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 22}" '
            f'text-anchor="middle">{tick:,g}</text>'
        )
    parts.append(
        f'<text class="faint" x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">step</text>'
    )
    parts += _legend(train, val)
    for kind, points in (("train", train), ("val", val)):
        if points:
            corners = " L".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)
            parts.append(f'<path class="{kind}" d="M{corners}"/>')
    parts += [
        f'<circle class="dot" cx="{x(s):.1f}" cy="{y(v):.1f}" r="3"/>'
        for s, v in (val if len(val) <= 40 else val[-1:])
    ]
    return "\n".join([*parts, "</svg>\n"])


def _legend(train: Points, val: Points) -> list[str]:
    parts, right = [], WIDTH - RIGHT
    for kind, name, points in (("val", "validation", val), ("train", "training", train)):
        if points:
            label = f"{name} {points[-1][1]:.3f}"
            parts.append(
                f'<text x="{right}" y="32" text-anchor="end">{label}</text>'
                f'<path class="{kind}" d="M{right - 7.2 * len(label) - 24:.1f},28 h18"/>'
            )
            right -= int(7.2 * len(label)) + 44
    return parts


def ticks(low: float, high: float, *, whole: bool = False, about: int = 6) -> list[float]:
    """Round numbers that cover low .. high, about so many.

    >>> ticks(2.1, 10.9)
    [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    span = max(high - low, 1e-9 if not whole else 1.0)
    if span < 1e-6:
        low, high, span = low - 0.5, high + 0.5, 1.0
    power = 10.0 ** _floor_log10(span / about)
    unit = next(m * power for m in (1, 2, 5, 10) if m * power * about >= span * 0.999)
    unit = max(unit, 1.0) if whole else unit
    first, last = int(low // unit), -int(-high // unit)
    return [round(k * unit, 10) for k in range(first, max(last, first + 1) + 1)]


def _floor_log10(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _thin(points: Points) -> Points:
    """At most MOST_POINTS points: means over equal runs, the last run possibly shorter."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) // MOST_POINTS)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(run[-1][0], sum(v for _, v in run) / len(run)) for run in runs]
