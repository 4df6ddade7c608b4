"""The funnel: documents and tokens that are left after each rule, from what was read on.

Documents and bytes were counted after every rule. Tokens are counted of what is written; before,
they are estimated from the bytes, at the bytes per token of what was left when it was encoded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, tag, text
from tokenmill.pages import plots
from tokenmill.pages.compare_page import COLOURS
from tokenmill.pages.html import note, section, table

WRITTEN = "written"


def funnel(accounts: Mapping[str, Any]) -> Html | None:
    """The section of a report; None for a dataset without rules."""
    if "documents_left" not in accounts:
        return None
    rows = list(_bars(accounts))
    key = note(tag("i", class_="key"), "documents ", tag("i", class_="key second"), "tokens")
    parts: list[object] = [key, plots.bars(rows, COLOURS)]
    dropped = sorted(accounts["dropped"].items(), key=lambda item: -item[1])
    if dropped:
        parts.append(table(("left out because of", "documents"), dropped))
    if accounts["changed"]:
        parts.append(table(("changed", "times"), list(accounts["changed"].items())))
    words = (
        "What is left after each rule, in their order. Tokens before the last line are estimated "
        "from bytes. tokenmill show --removed prints what was left out, and why."
    )
    return section("Funnel", *parts, note(words))


def steps(accounts: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield (step, documents, tokens) from what was read to what was written."""
    written = accounts["tokens_written"]
    tokens_encoded = written + accounts["tokens_dropped"]
    num_bytes = accounts["bytes_left"]
    last = next(reversed(num_bytes))
    for step, documents in accounts["documents_left"].items():
        share = num_bytes.get(step, 0) / max(1, num_bytes[last])
        yield step, documents, round(tokens_encoded * share)
    yield WRITTEN, accounts["documents_written"], written


def _bars(accounts: Mapping[str, Any]) -> Iterator[tuple[Html, float, str]]:
    """Yield a bar of documents and one of tokens for each step, as shares of what was read."""
    _, all_documents, all_tokens = next(steps(accounts))
    for step, documents, tokens in steps(accounts):
        share = documents / max(1, all_documents)
        yield text(step), share, f"{plural(documents, 'document')} ({share:.1%})"
        share = tokens / max(1, all_tokens)
        about = "" if step == WRITTEN else "about "
        yield text(""), share, f"{about}{plural(tokens, 'token')} ({share:.1%})"
