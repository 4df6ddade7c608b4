"""Each id as the bytes it stands for, made visible: nothing that reaches a terminal can move it.

Text in a dataset is anybody's. Control characters (C0, C1, the escape of ANSI sequences), marks
that turn the direction of text, and bytes that are no character alone are written out: \\x1b.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.base.human import visible

SPACE = "\u00b7"
NEWLINE = "\u21b5"
TAB = "\u2192"
EDGE = "\u2502"
_MARKED = {" ": SPACE, "\n": NEWLINE + "\n", "\t": TAB}
# Neighbouring tokens in two shades, what is special in reverse red.
_SHADES = ("\x1b[48;5;254;38;5;16m", "\x1b[48;5;250;38;5;16m")
_LOUD = "\x1b[1;41;97m"
_RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class ShownToken:
    """One token."""

    id: int
    data: bytes
    """The bytes it stands for; of a special token, how it is written."""
    special: bool = False

    @property
    def text(self) -> str:
        """The bytes as characters, with everything that is not printable written out."""
        return visible(self.data)


def show_ids(
    ids: np.ndarray, tokenizer: Any, *, end_of_text_id: int | None = None
) -> list[ShownToken]:
    """Some ids as text; without a tokenizer, or outside its vocabulary, as `<id>`."""
    special = end_of_text_id if tokenizer is None else tokenizer.end_of_text_id
    bytes_of = _bytes_of_each(ids, tokenizer)
    tokens = []
    for number, data in zip(ids.tolist(), bytes_of, strict=True):
        if number == special:
            name = getattr(tokenizer, "end_of_text", None) or f"<end of text {number}>"
            tokens.append(ShownToken(number, name.encode(), special=True))
        elif data is None:
            tokens.append(ShownToken(number, f"<{number}>".encode(), special=tokenizer is not None))
        else:
            tokens.append(ShownToken(number, data))
    return tokens


def _bytes_of_each(ids: np.ndarray, tokenizer: Any) -> Sequence[bytes | None]:
    """The bytes that each id adds to the text: an excerpt is short, one call per token is cheap."""
    if tokenizer is None:
        return [None] * len(ids)
    alone = {number: _decode(tokenizer, [number]) for number in np.unique(ids).tolist()}
    joined = [alone[number] for number in ids.tolist()]
    known = [data for data in joined if data is not None]
    if len(known) < len(joined) or b"".join(known) == _decode(tokenizer, ids):
        return joined
    # Tokenizers that drop a space at the start: what a token adds to the one before it.
    result = known[:1]
    for pair, (left, right) in zip(pairwise(ids.tolist()), pairwise(known), strict=True):
        both = _decode(tokenizer, pair) or left + right
        result.append(both[len(left) :] if both.startswith(left) else right)
    return result


def _decode(tokenizer: Any, ids: Any) -> bytes | None:
    try:
        data: bytes = tokenizer.decode(np.asarray(ids))
    except (ValueError, IndexError, OverflowError):
        return None
    return data


def render(tokens: Iterable[ShownToken], *, color: bool, with_ids: bool = False) -> str:
    """Text with the edges of its tokens: shades in colour, bars without."""
    parts = []
    for number, token in enumerate(tokens):
        text = "".join(_MARKED.get(c, c) for c in token.text)
        if with_ids:
            text = f"{text}({token.id})"
        if color:
            style = _LOUD if token.special else _SHADES[number % 2]
            # A shade that runs over the end of a line would fill the line.
            parts.append("\n".join(f"{style}{t}{_RESET}" if t else "" for t in text.split("\n")))
        else:
            parts.append(f"[[{text}]]" if token.special else text)
    return "".join(parts) if color else EDGE.join(parts)
