"""HTML by construction: a string is text and is escaped, unless it was made here.

All that a dataset holds is anybody's: documents, names of files, names of tokenizers. So there is
no template into which text is put; every child of `tag` that is not `Html` is escaped, and what
would not print (controls, marks that turn the direction of text) is written out.
"""

from html import escape
from typing import Any

from tokenmill.look.shown_tokens import visible

_EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Html(str):
    """A string that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Anything as text of a page."""
    return value if isinstance(value, Html) else Html(escape(visible(str(value))))


def join(*parts: object) -> Html:
    """Parts one after another; None is left out."""
    return Html("".join(text(part) for part in parts if part is not None))


def tag(element: str, /, *children: object, **attributes: Any) -> Html:
    """An element; `class_` and the like stand for names that Python has taken.

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
    head = " ".join(words)
    return Html(
        f"<{head}>" if element in _EMPTY and not inside else f"<{head}>{inside}</{element}>"
    )


def table(head: tuple[object, ...], rows: list[tuple[object, ...]], **attributes: Any) -> Html:
    """A table; numbers stand to the right."""
    first = rows[0] if rows else head
    top = tag(
        "tr",
        *(
            tag("th", cell, scope="col", class_="number" if isinstance(below, int) else None)
            for cell, below in zip(head, first, strict=bool(head))
        ),
    )
    body = (tag("tr", *(_cell(cell) for cell in row)) for row in rows)
    parts = tag("thead", top) if head else None, tag("tbody", *body)
    return tag("div", tag("table", *parts, **attributes), class_="scroll")


def _cell(value: object) -> Html:
    if isinstance(value, int) and not isinstance(value, bool):
        return tag("td", f"{value:,}", class_="number")
    return tag("td", value)
