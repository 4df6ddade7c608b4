"""Write what was measured into a page of docs/guides, below the comment that names its results."""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def put(page: str, results: str, text: str) -> None:
    """Replace the paragraph or table below `<!-- bench/results/NAME.json -->`."""
    path = ROOT / "docs" / "guides" / page
    comment = f"<!-- bench/results/{results} -->\n\n"
    former = re.compile(re.escape(comment) + r".+?(?=\n\n)", re.DOTALL)
    new, replaced = former.subn(lambda _: comment + text, path.read_text(encoding="utf-8"))
    if replaced != 1:
        raise RuntimeError(f"{path} has {replaced} comments that name {results}, not one")
    path.write_text(new, encoding="utf-8")


def table(*rows: Iterable[str]) -> str:
    """Return a table of Markdown; the first row is its head."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * (head.count(" | ") + 1) + "|", *others])
