"""Which sources a run was trained on, step by step, with its edits: one picture as inline SVG."""

from collections.abc import Mapping, Sequence

import numpy as np

from tokenmill.base.markup import Html, Plot, join, number, tag, ticks

PLOT = Plot(720, 240, left=64, right=24, top=34, bottom=46, label_gap=(10, 22))
COLOURS = ("#4f7fc4", "#d1772c", "#3f9a72", "#b35a9e", "#b0a030", "#2f9fb5", "#c25656", "#7d74c9")
STYLE = """
  .edit { stroke: currentColor; stroke-width: 1.5; stroke-dasharray: 5 3; }
  .edit-number { fill: currentColor; font-weight: 600; text-anchor: middle; }
  .key { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px;
         margin: 0 .3rem 0 .9rem; vertical-align: -1px; }
""" + "".join(f"  .c{i} {{ fill: {c}; background: {c}; }}\n" for i, c in enumerate(COLOURS))


def draw_sources(
    steps: Sequence[int], counts: Mapping[str, Sequence[int]], edits: Sequence[int]
) -> Html:
    """The share of each source between one step and the next; `edits` are the steps of edits.

    `counts` are the samples of each source before each of the steps.
    """
    rising = ticks(0, steps[-1], whole=True)
    last = rising[-1]  # the axis is that of the losses
    served = np.diff(np.array(list(counts.values())), axis=1)  # (sources, stretches)
    tops = np.cumsum(served, axis=0) / np.maximum(served.sum(axis=0), 1)
    edges = np.repeat(np.array(steps) / last, 2)[1:-1]  # both ends of each stretch
    parts = []
    keys = []
    below = np.zeros(len(edges))
    for number_of_source, (name, top) in enumerate(zip(counts, tops, strict=True)):
        above = np.repeat(top, 2)
        colour = f"c{number_of_source % len(COLOURS)}"
        outline = [*zip(edges, above, strict=True), *zip(edges[::-1], below[::-1], strict=True)]
        area = {"points": PLOT.corners(outline), "class_": colour}
        parts.append(tag("polygon", tag("title", name), **area))
        keys.append(join(tag("i", class_=f"key {colour}"), name))
        below = above
    picture = PLOT.svg(
        PLOT.grid((share, f"{share:.0%}") for share in (0, 0.5, 1)),
        *parts,
        *_marks(edits, last),
        PLOT.below((tick / last, f"{tick:,g}") for tick in rising),
        PLOT.axis_name("step", PLOT.height - 4),
        label="Share of each source by step",
    )
    return join(picture, tag("p", *keys))


def _marks(edits: Sequence[int], last: float) -> list[Html]:
    """A line at each edit, with the numbers of those that are there."""
    at: dict[int, list[str]] = {}
    for edit, step in enumerate(edits, 1):
        at.setdefault(step, []).append(str(edit))
    marks = []
    for step, numbers in at.items():
        x = number(PLOT.x(step / last))
        line = {"x1": x, "x2": x, "y1": number(PLOT.y(0)), "y2": PLOT.top - 6}
        marks.append(tag("line", class_="edit", **line))
        marks.append(tag("text", ", ".join(numbers), x=x, y=PLOT.top - 11, class_="edit-number"))
    return marks
