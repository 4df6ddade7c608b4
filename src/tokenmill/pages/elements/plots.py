"""Plots as inline SVG: no script is needed to see them, colours come from the style sheet."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tokenmill.base.human import human_count
from tokenmill.pages.elements.html import Html, join, note, tag

WIDE, NARROW, HEIGHT = 1080, 520, 270  # of a whole card, of half of one
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 40


def _svg(*children: object, label: str, width: int, height: int = HEIGHT) -> Html:
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=label,
    )


def number(value: float) -> str:
    """A coordinate: short, and the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def binary(power: int) -> str:
    """A power of two for an axis: 512, 1k, 64k."""
    for shift, unit in ((30, "G"), (20, "M"), (10, "k")):
        if power >= shift:
            return f"{1 << power - shift}{unit}"
    return f"{1 << power}"


def _round(most: int) -> list[int]:
    """One to four round numbers up to the largest."""
    unit = 10 ** int(np.log10(most))
    steps = (unit // 2 or 1, unit, 2 * unit, 5 * unit)
    step = next(step for step in steps if most // step <= 4)
    return list(range(step, most + 1, step))


def _grid(ticks: Sequence[tuple[float, str]], low: int, high: int, right: int) -> list[Html]:
    """Horizontal lines with their values; a tick is its share of the height."""
    parts = []
    for share, label in ticks:
        y = number(high + (low - high) * (1 - share))
        parts.append(tag("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=LEFT - 8, y=y, class_="tick left"))
    return parts


def histogram(lengths: np.ndarray) -> Html:
    """Lengths in bins of half an octave; a line shows how many tokens are in documents so short."""
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return note("No documents to plot.")
    bins = np.floor(2 * np.log2(lengths)).astype(int)
    first, last = int(bins.min()), int(bins.max())
    counts = np.bincount(bins - first, minlength=last - first + 1)
    tokens = np.bincount(bins - first, weights=lengths, minlength=last - first + 1)
    shares = np.cumsum(tokens) / tokens.sum()
    low, high = HEIGHT - BOTTOM, TOP
    step = (WIDE - LEFT - RIGHT) / len(counts)
    bars, points = [], [f"{LEFT},{low}"]
    for place, amount in enumerate(counts.tolist()):
        begin, end = (int(np.ceil(2 ** ((first + place + more) / 2))) for more in (0, 1))
        height = (low - high) * amount / counts.max()
        span = f"{begin:,}" if end - 1 <= begin else f"{begin:,} to {end - 1:,}"
        words = f"{span} tokens: {amount:,} documents, {shares[place]:.1%} of tokens up to here"
        x = LEFT + place * step
        bar = {"x": number(x + 1), "width": number(max(0.5, step - 2)), "rx": 2}
        visible = tag("rect", y=number(low - height), height=number(height), class_="bar", **bar)
        whole = tag("rect", y=high, height=low - high, class_="touch", **bar)
        bars.append(tag("g", tag("title", words), whole, visible))
        points.append(f"{number(x + step)},{number(low - (low - high) * shares[place])}")
    ticks = []
    for place in range(len(counts) + 1):
        # Powers of two, every second one where they would touch.
        power, half = divmod(first + place, 2)
        if half == 0 and (step > 24 or power % 2 == 0):
            at = number(LEFT + place * step)
            ticks.append(tag("text", binary(power), x=at, y=low + 18, class_="tick"))
    peak = int(counts.max())
    grid = _grid([(at / peak, human_count(at)) for at in _round(peak)], low, high, WIDE - RIGHT)
    line = tag("polyline", points=" ".join(points), class_="line")
    base = tag("line", x1=LEFT, x2=WIDE - RIGHT, y1=low, y2=low, class_="axis")
    name = tag("text", "tokens of a document", x=WIDE - RIGHT, y=HEIGHT - 2, class_="tick right")
    parts = (*grid, *bars, line, base, *ticks, name)
    return _svg(*parts, label="Histogram of document lengths", width=WIDE)


def rank_frequency(counts: np.ndarray) -> Html:
    """How often the token of each rank occurs, both axes logarithmic."""
    counts = np.sort(counts[counts > 0])[::-1]
    if len(counts) < 2:
        return note("Too few different tokens to plot.")
    ranks = np.unique(np.geomspace(1, len(counts), 200).astype(int))
    low, high = HEIGHT - BOTTOM, TOP
    top, right = np.log10(counts[0]), np.log10(len(counts))
    x = LEFT + (NARROW - LEFT - RIGHT) * np.log10(ranks) / right
    y = low - (low - high) * np.log10(counts[ranks - 1]) / max(top, 0.1)
    points = " ".join(f"{number(a)},{number(b)}" for a, b in zip(x, y, strict=True))
    area = f"{LEFT},{low} {points} {NARROW - RIGHT},{low}"
    ticks = [(power / max(top, 0.1), human_count(10**power)) for power in range(int(top) + 1)]
    marks = []
    for power in range(int(right) + 1):
        place = number(LEFT + (NARROW - LEFT - RIGHT) * power / right)
        marks.append(tag("text", human_count(10**power), x=place, y=low + 18, class_="tick"))
    name = tag("text", "rank of a token", x=NARROW - RIGHT, y=HEIGHT - 2, class_="tick right")
    return _svg(
        *_grid(ticks, low, high, NARROW - RIGHT),
        tag("polygon", points=area, class_="area"),
        tag("polyline", points=points, class_="line"),
        *marks,
        name,
        label="Occurrences by rank",
        width=NARROW,
    )


def vocabulary_map(counts: np.ndarray, vocab_size: int) -> Html:
    """Every id in its place: a cell stands for some neighbouring ids, dark when all are used."""
    columns, rows = 56, 18
    cells = min(vocab_size, columns * rows)
    edges = np.linspace(0, vocab_size, cells + 1).astype(int)
    used = np.concatenate([[0], np.cumsum(counts > 0)])
    size = (NARROW - 2) / columns
    parts = []
    for place, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        amount = int(used[end] - used[begin])
        shade = -(-4 * amount // (end - begin))
        row, column = divmod(place, columns)
        ids = f"id {begin:,}" if end - begin == 1 else f"ids {begin:,} to {end - 1:,}"
        words = tag("title", f"{ids}: {amount:,} of {end - begin:,} used")
        box = {"x": number(1 + column * size), "y": number(1 + row * size), "rx": 1.5}
        side = number(size - 1.5)
        parts.append(tag("rect", words, width=side, height=side, class_=f"cell v{shade}", **box))
    height = int(np.ceil(size * -(-cells // columns))) + 2
    return _svg(*parts, label="Which ids are used", width=NARROW, height=height)


def bars(rows: Sequence[tuple[Html, float, str]], *, most: float | None = None) -> Html:
    """Horizontal bars with their labels: (label, value, words)."""
    top = most or max((value for _, value, _ in rows), default=1) or 1
    lines = []
    for label, value, words in rows:
        bar = tag("rect", x=0, y=0, width=number(100 * value / top), height=10, class_="bar")
        drawing = tag("svg", bar, viewBox="0 0 100 10", preserveAspectRatio="none", class_="flat")
        lines.append(tag("tr", tag("th", label), tag("td", drawing), tag("td", words)))
    return tag("div", tag("table", tag("tbody", *lines), class_="bars"), class_="scroll")


def meter(share: float, words: str) -> Html:
    """A share of a whole, as one bar."""
    parts = join(
        tag("rect", x=0, y=0, width=100, height=10, class_="rest"),
        tag("rect", x=0, y=0, width=number(100 * share), height=10, class_="bar"),
    )
    drawing = tag("svg", parts, viewBox="0 0 100 10", preserveAspectRatio="none", class_="flat")
    return tag("div", drawing, tag("span", words), class_="meter")


def strip(cuts: Sequence[int], length: int) -> Html:
    """How documents are packed into a row: a bar cut where another one begins."""
    edges = [0, *cuts, length]
    parts = []
    for place, (begin, end) in enumerate(pairwise(edges)):
        words = tag("title", f"part {place}: {end - begin:,} tokens")
        x, width = (
            number(1000 * begin / length),
            number(max(0.5, 1000 * (end - begin) / length - 1.5)),
        )
        kind = f"part p{place % 6}"
        parts.append(tag("rect", words, x=x, y=0, width=width, height=10, class_=kind))
    return tag(
        "svg",
        *parts,
        viewBox="0 0 1000 10",
        preserveAspectRatio="none",
        class_="strip",
        role="img",
        aria_label=f"{len(edges) - 1} documents in this row",
    )
