"""Tables, cards and whole pages; tokens in colour.

Of a token are shown its edges, spaces as dots, arrows for newlines, id and bytes on hover.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import zip_longest
from string import Template
from typing import Any

from tokenmill.base.human import human_count, plural
from tokenmill.base.markup import Html, join, tag, text
from tokenmill.look.inspect import Inspection
from tokenmill.look.show import NEWLINE, SPACE, TAB, ShownToken

SHADES = 6
MAX_BYTES_SHOWN = 24
_MARKED = str.maketrans({" ": SPACE, "\n": f"{NEWLINE}\n", "\t": f"{TAB}\t"})


def table(head: tuple[object, ...], rows: Sequence[tuple[object, ...]], **attributes: Any) -> Html:
    """A table; numbers are on the right."""
    first = rows[0] if rows else head
    names = (
        tag("th", cell, scope="col", class_="number" if isinstance(below, int | float) else None)
        for cell, below in zip(head, first, strict=bool(head))
    )
    body = (tag("tr", *map(_cell, row)) for row in rows)
    titles = tag("thead", tag("tr", *names)) if head else None
    return tag("div", tag("table", titles, tag("tbody", *body), **attributes), class_="scroll")


def _cell(value: object) -> Html:
    if isinstance(value, int) and not isinstance(value, bool):
        return tag("td", f"{value:,}", class_="number")
    if isinstance(value, float):
        return tag("td", f"{value:.4g}", class_="number")
    return tag("td", text(value))


def note(*words: object) -> Html:
    """A sentence in small letters."""
    return tag("p", *words, class_="note")


def facts(known: Mapping[str, object]) -> Html:
    """Names and values as a table."""
    rows = [(name.replace("_", " "), value) for name, value in known.items()]
    return table((), rows, class_="facts")


def offline_page(title: str, body: Html) -> str:
    """One file with its style, script and icon inside; its policy allows nothing from elsewhere."""
    style = packaged_file("style.css")
    script = packaged_file("script.js")
    return fill_in(
        "offline.html",
        title=title,
        body=body,
        icon=_base64(packaged_file("icon.svg")),
        style=Html(style.decode()),
        style_hash=_base64(hashlib.sha256(style).digest()),
        script=Html(script.decode()),
        script_hash=_base64(hashlib.sha256(script).digest()),
    )


def fill_in(file: str, **values: object) -> str:
    """A packaged page with these values in it, as text where they are not HTML."""
    page = Template(packaged_file(file).decode())
    return page.substitute({key: text(value) for key, value in values.items()})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def cards(*entries: tuple[object, object]) -> Html:
    """Large numbers with small names."""
    made = (
        tag("div", tag("b", value), tag("span", label), class_="card figure")
        for label, value in entries
    )
    return tag("div", *made, class_="figures")


def main_figures(known: Inspection) -> list[tuple[object, object]]:
    """The cards that report and overview both begin with."""
    documents = known.documents
    per_token = known.bytes_per_token
    return [
        ("tokens", human_count(known.tokens)),
        ("documents", "not counted" if documents is None else human_count(documents)),
        ("bytes a token", "unknown" if per_token is None else f"{per_token:.2f}"),
    ]


def pair(*parts: Html) -> Html:
    """Cards side by side, or below each other where there is no room."""
    return tag("div", *parts, class_="grid2")


def section(title: str, *children: object) -> Html:
    """A card with a title."""
    return tag("section", tag("h2", title), *children, class_="card")


def coloured(
    tokens: Sequence[ShownToken],
    *,
    first: int = 0,
    notes: Sequence[str] = (),
    edges: Mapping[int, Html] | None = None,
    found: range = range(0),
) -> Html:
    """Tokens as one block. `first` is the place of the first, so that shades do not jump.

    `notes` are more lines for hovering, one per token; `edges` are put before the token of their
    number, where a document begins; tokens in `found` are marked.
    """
    edges = edges or {}
    parts: list[Html | None] = []
    for number, (token, words) in enumerate(zip_longest(tokens, notes)):
        target = None if token.target is None else "a target" if token.target else "no target"
        hover = [*_hover(token), f"token {first + number:,}", *filter(None, [target, words])]
        kind = _class(token, first + number) + (" found" if number in found else "")
        shown = token.text.translate(_MARKED)
        parts.append(edges.get(number))
        parts.append(tag("span", shown, class_=kind, title="\n".join(hover), data_id=token.id))
    parts.append(edges.get(len(tokens)))
    return tag("div", *parts, class_="tokens", translate="no", spellcheck="false")


def inline(token: ShownToken, *, place: int = 0) -> Html:
    """One token alone, for tables and plots."""
    shown = token.text.translate(_MARKED).replace("\n", "").replace("\t", "")
    hover = "\n".join(_hover(token))
    return tag("span", shown or "(nothing)", class_=_class(token, place), title=hover)


def preview(tokens: Sequence[ShownToken]) -> Html:
    """The beginning of a document on one line."""
    return join(*(inline(token, place=number) for number, token in enumerate(tokens)))


def _class(token: ShownToken, place: int) -> str:
    context = " context" if token.target is False else ""
    if token.special:
        return f"t special{context}"
    is_text = token.data.decode(errors="ignore").encode() == token.data
    return f"t s{place % SHADES}{'' if is_text else ' raw'}{context}"


def _hover(token: ShownToken) -> list[str]:
    if token.special:
        return [f"id {token.id:,} (special)"]
    if token.data == b"<%d>" % token.id:  # shown for an id without a tokenizer
        return [f"id {token.id:,}"]
    more = " ..." if len(token.data) > MAX_BYTES_SHOWN else ""
    shown = token.data[:MAX_BYTES_SHOWN].hex(" ")
    return [f"id {token.id:,}", f"{plural(len(token.data), 'byte')}: {shown}{more}"]


@cache
def packaged_file(name: str) -> bytes:
    """A file of the folder `files`: style, script, icon, or the frame of a page."""
    return (resources.files("tokenmill.pages") / "files" / name).read_bytes()
