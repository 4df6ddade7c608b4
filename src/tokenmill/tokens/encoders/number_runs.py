r"""A pattern that takes numbers in pairs, `\p{N}{1,2}`, by gigatoken's that takes up to three.

Patterns read a text from left to right and never look back, and none looks beyond a number. So a
text may be cut after any number, if the rest begins a piece of its own; and a run of numbers that
is cut after every second one is taken in pairs, whatever the pattern says.
"""

import base64
import functools
import re
import tempfile
from collections.abc import Sequence

import numpy as np

from tokenmill.tokens.encoders.gigatoken import encode_in_pieces
from tokenmill.tokens.encoders.same_ids import EncodeBatch
from tokenmill.tokens.tokenizer import Ends, Ids

_LONG_ASCII = re.compile(rb"[0-9]{3,}")


def in_pairs(encode: EncodeBatch) -> EncodeBatch:
    """An encoder that takes up to three numbers at once becomes one that takes two."""
    return functools.partial(_encode, encode)


def _encode(encode: EncodeBatch, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
    return encode_in_pieces(encode, texts, cut_into_pairs)


def cut_into_pairs(text: bytes) -> list[bytes]:
    """The text, cut after every second number of a run that is longer than two."""
    if text.isascii():
        cuts = [at for m in _LONG_ASCII.finditer(text) for at in range(m.start() + 2, m.end(), 2)]
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    string = text.decode()
    runs = _long_runs().finditer(string)
    cuts = [at for m in runs for at in range(m.start() + 2, m.end(), 2)]
    return [string[a:b].encode() for a, b in zip([0, *cuts], [*cuts, len(string)], strict=True)]


@functools.cache
def _long_runs() -> re.Pattern[str]:
    r"""Three or more of what gigatoken holds for `\p{N}`: its Unicode is not always Python's."""
    from gigatoken.gigatoken_rs import BPETokenizer

    points = [p for p in range(0x80, 0x110000) if not 0xD800 <= p < 0xE000]
    # "1" and the first byte of a character are one token: it is seen where both are in one piece.
    firsts = range(0xC2, 0xF5)
    tokens = [bytes([b]) for b in range(256)] + [bytes([0x31, first]) for first in firsts]
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        lines = (base64.b64encode(t) + b" %d\n" % rank for rank, t in enumerate(tokens))
        file.write(b"".join(lines))
        file.flush()
        encoder = BPETokenizer.from_tiktoken(file.name, "gpt2")
    ids = encoder.encode("".join(f"\n1{chr(p)}" for p in points).encode())
    # After every newline: the joined token, or "1".
    joined = ids[np.flatnonzero(ids == 0x0A) + 1] >= 256
    found = np.array(points)[joined]
    ends = np.flatnonzero(np.diff(found) != 1)
    spans = zip(found[[0, *(ends + 1)]], found[[*ends, -1]], strict=True)
    return re.compile("[0-9" + "".join(f"{chr(a)}-{chr(b)}" for a, b in spans) + "]{3,}")
