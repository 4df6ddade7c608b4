"""Plots as inline SVG: no script is needed to see them, colours come from the style sheet."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, pairwise

import numpy as np

from tokenmill.base.human import human_count, plural
from tokenmill.base.markup import Html, Plot, column_chart, number, tag, text
from tokenmill.edits.usage import SourceUsage
from tokenmill.pages.html import note, section

# Half a card on a desk. On a phone labels are 18 pixels high, and seven digits fit at the left.
NARROW = Plot(520, 270, left=84, right=40, top=12, bottom=40, label_gap=(8, 18))
KINDS = 6  # of colours: p0 to p5 in style.css


def length_bars(lengths: np.ndarray) -> Html:
    """Documents by length, a bar per octave, and the share of tokens up to each length."""
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return note("No documents to plot.")
    octaves = np.log2(lengths).astype(int)
    counts = np.bincount(octaves)
    shares = np.cumsum(np.bincount(octaves, weights=lengths)) / lengths.sum()
    rows = []
    for power in range(int(octaves.min()), len(counts)):
        least = 1 << power
        span = "1 token" if power == 0 else f"{least:,} to {2 * least - 1:,} tokens"
        count = int(counts[power])
        words = f"{plural(count, 'document')}, {shares[power]:.1%} of tokens up to here"
        rows.append((text(span), float(count), words))
    return bars(rows)


def rank_frequency(counts: np.ndarray) -> Html:
    """Occurrences of the token of each rank, both axes logarithmic."""
    counts = np.sort(counts[counts > 0])[::-1]
    if len(counts) < 2:
        return note("Too few different tokens to plot.")
    ranks = np.unique(np.geomspace(1, len(counts), 200).astype(int))
    top = max(np.log10(counts[0]), 0.1)
    right = np.log10(len(counts))
    places = zip(np.log10(ranks) / right, np.log10(counts[ranks - 1]) / top, strict=True)
    points = NARROW.corners(places)
    area = f"{NARROW.corners([(0, 0)])} {points} {NARROW.corners([(1, 0)])}"
    return NARROW.svg(
        NARROW.grid((n / top, human_count(10**n)) for n in range(int(np.log10(counts[0])) + 1)),
        tag("polygon", points=area, class_="area"),
        tag("polyline", points=points, class_="line"),
        NARROW.below((n / right, human_count(10**n)) for n in range(int(right) + 1)),
        NARROW.axis_name("rank of a token", NARROW.height - 2),
        label="Occurrences by rank",
        class_="half",
    )


def shard_use(usage: SourceUsage) -> Html:
    """The use of each shard by a run: flat, except for the epoch in progress."""
    used = [shard.epochs for shard in usage.shards]
    words = (
        f"{usage.samples:,} samples of {usage.source}, {usage.epochs:.3g} epochs. The tokens of a "
        f"shard were a target {min(used):.4g} to {max(used):.4g} times."
    )
    parts = [(shard.file, shard.epochs) for shard in usage.shards]
    label = f"A column for each shard of {usage.source}"
    chart = column_chart(NARROW, parts, unit="times", label=label, class_="half")
    return section(f"Use of the shards of {usage.source}", chart, note(words))


def vocabulary_map(counts: np.ndarray, vocab_size: int) -> Html:
    """Every id in its place: a cell stands for some neighbouring ids, dark when all are used."""
    columns = 56
    cells = min(vocab_size, columns * 18)
    edges = np.linspace(0, vocab_size, cells + 1).astype(int).tolist()
    used = np.concatenate([[0], np.cumsum(counts > 0)])
    size = (NARROW.width - 2) / columns
    parts = []
    for place, (begin, end) in enumerate(pairwise(edges)):
        amount = int(used[end] - used[begin])
        shade = -(-4 * amount // (end - begin))
        row, column = divmod(place, columns)
        ids = f"id {begin:,}" if end - begin == 1 else f"ids {begin:,} to {end - 1:,}"
        words = tag("title", f"{ids}: {amount:,} of {end - begin:,} used")
        box = {"x": number(1 + column * size), "y": number(1 + row * size), "rx": 1.5}
        side = number(size - 1.5)
        parts.append(tag("rect", words, width=side, height=side, class_=f"cell v{shade}", **box))
    height = int(np.ceil(size * -(-cells // columns))) + 2
    return replace(NARROW, height=height).svg(*parts, label="Which ids are used")


def bars(rows: Sequence[tuple[Html, float, str]], kinds: Sequence[str] = ("bar",)) -> Html:
    """Horizontal bars with their labels: (label, value, words); `kinds` are colours in turn."""
    top = max((value for _, value, _ in rows), default=1) or 1
    lines = []
    for (label, value, words), kind in zip(rows, cycle(kinds), strict=False):
        drawing = _flat(100, _bar(0, 100 * value / top, kind), class_="flat")
        lines.append(tag("tr", tag("th", label), tag("td", drawing), tag("td", words)))
    names = "bars" if len(kinds) == 1 else "bars pairs"
    return tag("div", tag("table", tag("tbody", *lines), class_=names), class_="scroll")


def meter(share: float, words: str) -> Html:
    """A share of a whole, as one bar."""
    drawing = _flat(100, _bar(0, 100, "rest"), _bar(0, 100 * share, "bar"), class_="flat")
    return tag("div", drawing, tag("span", words), class_="meter")


def strip(columns: Sequence[int], length: int, filled: int) -> Html:
    """A row of a batch, a bar for each document from its column on; the rest is padding."""
    parts = []
    for place, (begin, end) in enumerate(pairwise([*columns, filled])):
        words = tag("title", f"part {place}: {end - begin:,} tokens")
        width = max(0.5, 1000 * (end - begin) / length - 1.5)
        parts.append(_bar(1000 * begin / length, width, f"part p{place % KINDS}", words))
    label = f"{len(parts)} documents in this row"
    return _flat(1000, *parts, class_="strip", role="img", aria_label=label)


def _flat(width: int, *parts: Html, **attributes: str) -> Html:
    """A picture of bars that is stretched to the room there is."""
    box = f"0 0 {width} 10"
    return tag("svg", *parts, viewBox=box, preserveAspectRatio="none", **attributes)


def _bar(x: float, width: float, kind: str, *inside: Html) -> Html:
    return tag("rect", *inside, x=number(x), y=0, width=number(width), height=10, class_=kind)
