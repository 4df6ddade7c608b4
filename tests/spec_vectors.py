"""Test vectors of our specifications: expressions and their values, for readers in any language."""

import json
import re

from docs_blocks import ROOT

PATH = ROOT / "docs" / "reference" / "vectors.json"
PAGES = {
    "inputs": "guides/inputs.md",
    "cleaning": "guides/cleaning.md",
    "validation": "guides/validation.md",
    "rows": "reference/order.md",
    "order": "reference/order.md",
}


def vectors(section: str) -> list[tuple[str, str]]:
    """Return (expression, value) of a section of docs/reference/vectors.json."""
    return list(json.loads(PATH.read_text(encoding="utf-8"))[section].items())


def on_page(page: str) -> list[tuple[str, str]]:
    """Return those of them that a page shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
