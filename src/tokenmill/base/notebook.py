"""Small HTML for notebooks: facts, coloured pieces of text, rows as strips.

Styles are inline, since viewers of notebooks remove style sheets, and the colours can be read on
white and on black. All text is escaped by `markup`.
"""

from collections.abc import Iterable, Mapping, Sequence

from tokenmill.base.markup import Html, tag

SHADES = ("#2f81f7", "#bf6900", "#238636", "#8250df", "#c2377a", "#1b7c83")
HEIGHT = 14  # of a strip, in pixels


def facts(title: str, known: Mapping[str, object]) -> Html:
    """Return a title and a table of names and values; None is left out, numbers are grouped."""
    shown = {name: f"{v:,}" if isinstance(v, int) else v for name, v in known.items()}
    rows = (tag("tr", tag("td", n), tag("td", v)) for n, v in shown.items() if v is not None)
    return tag("div", tag("b", title), tag("table", *rows))


def coloured(pieces: Iterable[tuple[str, str]]) -> Html:
    """Return pieces of text, each (shown, shown on hover), in colours that take turns."""
    spans = []
    for number, (shown, hover) in enumerate(pieces):
        style = f"background:{SHADES[number % len(SHADES)]}44;border-radius:3px;padding:1px 0"
        spans.append(tag("span", shown, style=style, title=hover))
    return tag("div", *spans, style="white-space:pre-wrap;font-family:monospace;line-height:1.7")


def strips(title: str, rows: Sequence[Sequence[tuple[int, int, str]]]) -> Html:
    """Return each row as a strip of parts (length, shade, shown on hover); shade -1 is grey."""
    parts = []
    for number, row in enumerate(rows):
        at = 0
        for length, shade, hover in row:
            fill = "#7d859044" if shade < 0 else SHADES[shade % len(SHADES)]
            box = {"x": at, "y": number * HEIGHT, "width": length, "height": HEIGHT - 2}
            parts.append(tag("rect", tag("title", hover), fill=fill, **box))
            at += length
    height = len(rows) * HEIGHT
    size = {"width": "100%", "height": height, "viewBox": f"0 0 {at} {height}"}
    return tag("div", tag("b", title), tag("svg", *parts, **size, preserveAspectRatio="none"))
