"""HTML and SVG by construction: a string is text and is escaped, unless it was made here.

Documents and names come from anybody. So there is no template into which text is put, and what
would not print (controls, marks that turn the direction of text) is written out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tokenmill.base.human import visible

_EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Html(str):
    """A string that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return anything as text of a page."""
    return value if isinstance(value, Html) else Html(escape(visible(str(value))))


def join(*parts: object) -> Html:
    """Join parts; None is left out."""
    return Html("".join(text(part) for part in parts if part is not None))


def tag(element: str, /, *children: object, **attributes: Any) -> Html:
    """Return an element; `class_` is the attribute `class`, and so on.

    >>> tag("a", "1 < 2", href="document?n=1", class_="loud")
    '<a href="document?n=1" class="loud">1 &lt; 2</a>'
    """
    words = [element]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{text(value)}"')
    inside = join(*children)
    end = "" if element in _EMPTY and not inside else f"{inside}</{element}>"
    return Html(f"<{' '.join(words)}>{end}")


def number(value: float) -> str:
    """Write a coordinate: short, and the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Return some 6 round numbers that cover low .. high.

    >>> ticks(2.1, 10.9)
    [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    span = max(high - low, 1.0 if whole else 1e-9)
    if span < 1e-6:
        low -= 0.5
        high += 0.5
        span = 1.0
    power = 10.0 ** int(f"{span / 6:e}".partition("e")[2])
    unit = next(m * power for m in (1, 2, 5, 10) if m * power * 6 >= span * 0.999)
    unit = max(unit, 1.0) if whole else unit
    first = int(low // unit)
    last = -int(-high // unit)
    return [round(k * unit, 10) for k in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class Plot:
    """A picture with axes: its margins, and points in it as shares of its sides.

    Colours come from a style sheet: classes `grid`, `tick`, `tick left` and `tick right`.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    label_gap: tuple[int, int]
    """From the left axis to the ends of its labels; from the lower axis to the line of labels."""

    def x(self, share: float) -> float:
        return self.left + (self.width - self.left - self.right) * share

    def y(self, share: float) -> float:
        return self.height - self.bottom - (self.height - self.top - self.bottom) * share

    def corners(self, points: Iterable[tuple[float, float]], separator: str = " ") -> str:
        return separator.join(f"{number(self.x(a))},{number(self.y(b))}" for a, b in points)

    def grid(self, ticks: Iterable[tuple[float, str]]) -> Html:
        """Horizontal lines with their values."""
        parts = []
        for share, label in ticks:
            y = number(self.y(share))
            end = self.width - self.right
            parts.append(tag("line", x1=self.left, x2=end, y1=y, y2=y, class_="grid"))
            x = self.left - self.label_gap[0]
            parts.append(tag("text", label, x=x, y=y, class_="tick left"))
        return join(*parts)

    def below(self, ticks: Iterable[tuple[float, str]]) -> Html:
        """Values under the horizontal axis."""
        y = self.height - self.bottom + self.label_gap[1]
        texts = (
            tag("text", label, x=number(self.x(share)), y=y, class_="tick")
            for share, label in ticks
        )
        return join(*texts)

    def axis_name(self, words: str, y: int) -> Html:
        return tag("text", words, x=self.width - self.right, y=y, class_="tick right")

    def svg(self, *parts: object, label: str, **attributes: Any) -> Html:
        box = f"0 0 {self.width} {self.height}"
        return tag("svg", *parts, viewBox=box, role="img", aria_label=label, **attributes)


MOST_COLUMNS = 150


def column_chart(
    plot: Plot, parts: Sequence[tuple[str, float]], *, unit: str, label: str, **attributes: Any
) -> Html:
    """Draw columns side by side; more parts than fit are drawn as means of neighbours.

    Colours come from a style sheet: classes `bar`, `axis` and those of the plot.
    """
    size = -(-len(parts) // MOST_COLUMNS) or 1
    groups = [parts[i : i + size] for i in range(0, len(parts), size)]
    grid = ticks(0, max((value for _, value in parts), default=0) or 1)
    low = plot.y(0)
    step = plot.x(1 / max(1, len(groups))) - plot.x(0)
    gap = min(2, step / 4)
    columns = []
    for position, group in enumerate(groups):
        mean = sum(value for _, value in group) / len(group)
        x = plot.x(position / len(groups))
        y = plot.y(mean / grid[-1])
        box = {"x": number(x + gap / 2), "width": number(step - gap)}
        words = tag("title", _column_words(group, unit))
        columns.append(tag("rect", words, y=number(y), height=number(low - y), class_="bar", **box))
    return plot.svg(
        plot.grid((tick / grid[-1], f"{tick:g}") for tick in grid),
        *columns,
        tag("line", x1=number(plot.x(0)), x2=number(plot.x(1)), y1=low, y2=low, class_="axis"),
        label=label,
        **attributes,
    )


def _column_words(group: Sequence[tuple[str, float]], unit: str) -> str:
    names = [name for name, _ in group]
    values = [value for _, value in group]
    if len(group) == 1:
        return f"{names[0]}: {values[0]:.4g} {unit}"
    return f"{names[0]} to {names[-1]}: {min(values):.4g} to {max(values):.4g} {unit}"
