"""Tokens in colour: their edges, spaces as dots, arrows for newlines, id and bytes on hover."""

from collections.abc import Mapping, Sequence

from tokenmill.look.shown_tokens import NEWLINE, SPACE, TAB, Piece
from tokenmill.pages.elements.html import Html, join, tag

SHADES = 6
MAX_BYTES_SHOWN = 24
_MARKED = str.maketrans({" ": SPACE, "\n": f"{NEWLINE}\n", "\t": f"{TAB}\t"})


def coloured(
    pieces: Sequence[Piece],
    *,
    first: int = 0,
    notes: Sequence[str] | None = None,
    edges: Mapping[int, Html] | None = None,
    found: range = range(0),
) -> Html:
    """The pieces as one block. `first` is the place of the first, so that shades do not jump.

    `notes` are more lines for hovering, one a piece; `edges` stand before the piece of their
    number, where a document begins; pieces in `found` are marked.
    """
    parts: list[object] = []
    for number, piece in enumerate(pieces):
        if edges and number in edges:
            parts.append(edges[number])
        hover = _hover(piece, first + number)
        if notes is not None:
            hover += f"\n{notes[number]}"
        parts.append(_token(piece, first + number, hover, number in found))
    if edges and len(pieces) in edges:
        parts.append(edges[len(pieces)])
    return tag("div", *parts, class_="tokens", translate="no", spellcheck="false")


def inline(piece: Piece, *, place: int = 0) -> Html:
    """One token alone, for tables and plots."""
    shown = piece.text.translate(_MARKED).replace("\n", "").replace("\t", "")
    return tag("span", shown or "(nothing)", class_=_class(piece, place), title=_hover(piece, None))


def preview(pieces: Sequence[Piece]) -> Html:
    """The beginning of a document on one line."""
    return join(*(inline(piece, place=number) for number, piece in enumerate(pieces)))


def _token(piece: Piece, place: int, hover: str, found: bool) -> Html:
    kind = _class(piece, place) + (" found" if found else "")
    return tag("span", piece.text.translate(_MARKED), class_=kind, title=hover, data_id=piece.id)


def _class(piece: Piece, place: int) -> str:
    if piece.special:
        return "t special"
    return f"t s{place % SHADES}{'' if _is_text(piece.data) else ' raw'}"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _hover(piece: Piece, place: int | None) -> str:
    lines = [f"id {piece.id:,}"]
    if piece.special:
        lines[0] += " (special)"
    elif piece.data != b"<%d>" % piece.id:  # what stands in for an id without a tokenizer
        more = " ..." if len(piece.data) > MAX_BYTES_SHOWN else ""
        shown = piece.data[:MAX_BYTES_SHOWN].hex(" ")
        lines.append(f"{len(piece.data)} byte{'s'[: len(piece.data) != 1]}: {shown}{more}")
    if place is not None:
        lines.append(f"token {place:,}")
    return "\n".join(lines)
