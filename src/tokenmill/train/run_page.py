"""run.html: one page about a run, for a browser on a desk or a phone; it needs nothing else.

The losses on every validation set, the curve, what was trained on and when, the last sample, the
settings. It is written again at every evaluation; what it shows is in metrics.jsonl, edits.jsonl
and config.json.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenmill.base.markup import Html, join, tag, whole_page
from tokenmill.train.curve import Points
from tokenmill.train.trained_part import STYLE as TRAINED_STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
  :root { color-scheme: light dark; }
  body { margin: 0 auto; max-width: 760px; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; }
  h1 { font-size: 1.5rem; margin: .3rem 0; overflow-wrap: anywhere; }
  figure { margin: 1rem 0; } svg { display: block; width: 100%; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #8884; }
  td { overflow-wrap: anywhere; } th { font-weight: 500; }
  .n { text-align: right; white-space: nowrap; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .8rem; border: 1px solid #8884;
        border-radius: 8px; }
"""


def make_run_page(
    title: str,
    picture: str,
    losses: Mapping[str, Points],
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    trained_on: Html | None = None,
) -> str:
    """The page; `picture` is the curve as SVG, `losses` are (step, loss) by what they are of.

    `trained_on` is the part about the data (trained_part.py).
    """
    last = rows[-1]["step"] if rows else 0
    sample = next((row["sample"] for row in reversed(rows) if "sample" in row), None)
    body = join(
        tag("h1", title),
        tag("p", f"Step {last:,} of {settings.get('max_iters', 0):,}"),
        tag("figure", Html(picture)),
        _losses(losses),
        trained_on,
        join(tag("h2", "Sample"), tag("pre", sample)) if sample else None,
        tag("details", tag("summary", "Settings"), _settings(settings)),
    )
    head = join(
        tag("meta", http_equiv="Content-Security-Policy", content=Html(POLICY)),
        tag("style", Html(STYLE + TRAINED_STYLE)),
    )
    return whole_page(f"{title} - tokenmill run", head, tag("body", body))


def _losses(losses: Mapping[str, Points]) -> Html:
    names = ("loss", "last", "lowest", "at step")
    head = tag("tr", *(tag("th", name, class_="n" if name != "loss" else None) for name in names))
    lines = []
    for name, points in losses.items():
        points = [point for point in points if point[1] == point[1]]  # without NaN
        if points:
            step, lowest = min(points, key=lambda point: point[1])
            cells = (f"{points[-1][1]:.4f}", f"{lowest:.4f}", f"{step:,}")
            lines.append(tag("tr", tag("td", name), *(tag("td", c, class_="n") for c in cells)))
    return tag("table", tag("thead", head), tag("tbody", *lines))


def _settings(settings: Mapping[str, Any]) -> Html:
    lines = (tag("tr", tag("td", name), tag("td", str(v))) for name, v in settings.items())
    return tag("table", tag("tbody", *lines))
