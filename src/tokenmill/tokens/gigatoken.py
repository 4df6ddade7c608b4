"""The fast encoder, with its memory bounded: byte-level BPE, and SentencePiece's BPE.

gigatoken encodes 150 to 400 MB/s on one core because it remembers the ids of every word it has
seen: 28 MB of English adds about 30 MB, but random letters add 6 bytes for each byte of text. So
the encoder is thrown away and built again (0.1 s) when the process has grown by GROWTH_LIMIT since
it was built. Ids do not depend on it. SentencePiece's BPE runs at 50 to 150 MB/s; its words may be
as long as a text, and one of 16 MB took 40 bytes of memory for each byte.

Where memory ends, it ends the process: it is not written in Python. So where the address space is
limited (`ulimit -v`), what is left of it is compared with what encoding may take, before.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.base.human import human_bytes
from tokenmill.base.system import address_space_limit, process_bytes
from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.tokens.tokenizer import decode_texts, ends_of, failures_of
from tokenmill.tokens.vocabulary import Ends, Ids

GROWTH_LIMIT = 256 << 20  # bytes of resident memory
LOOK_EVERY = 16 << 20  # bytes of text, in which it grows by 100 MB at most
UNSEEN_LIMIT = 64 << 20  # bytes of text, where the system does not tell resident memory
BUILT_BYTES = 48 << 20  # of an encoder
WORD_BYTES = 7
PIECE_BYTES = 50  # for each byte of a text: of byte-level BPE, of SentencePiece's
SINGLY = 100_000  # texts of a process, at 2 us each: more are worth the 0.4 s to import awkward


class Encoder:
    """gigatoken, built by a function when first used, and built again before it grows too large."""

    def __init__(self, build: Callable[[], Any], *, is_sentencepiece: bool = False) -> None:
        self._build = build
        self._is_sentencepiece = is_sentencepiece
        self._backend: Any = None
        self._text_seen = self._text_seen_at_last_look = 0
        self._texts_singly = 0
        self._size_when_built: int | None = None

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        if not texts:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        if self._is_sentencepiece:
            decode_texts(texts, "this tokenizer")  # what is not UTF-8 would end the process
        num_bytes = sum(map(len, texts))
        memory_per_byte = PIECE_BYTES if self._is_sentencepiece else WORD_BYTES
        check_address_space(BUILT_BYTES + memory_per_byte * num_bytes, num_bytes)
        with failures_of("gigatoken", "encode a text with this tokenizer", kind=PrepareError):
            if self._backend is None:
                self._backend = self._build()
                self._text_seen = self._text_seen_at_last_look = 0
                self._size_when_built = process_bytes(resident=True)
            if self._texts_singly + len(texts) <= SINGLY or len(texts) == 1:
                self._texts_singly += len(texts)
                found = list(map(self._backend.encode, texts))
                ids, ends = np.concatenate(found) if len(found) > 1 else found[0], ends_of(found)
            else:
                # parallel=False: our workers are processes, and a thread pool in each would fight
                # the others.
                layout = self._backend.encode_batch(list(texts), parallel=False).layout
                offsets: npt.NDArray[np.int64] = np.asarray(layout.offsets.data, np.int64)
                ids = np.asarray(layout.content.data, np.uint32)[offsets[0] : offsets[-1]]
                ends = offsets[1:] - offsets[0]
        self._text_seen += num_bytes
        if self._is_worn():
            self._backend = None
        return ids, ends

    def _is_worn(self) -> bool:
        if self._text_seen < self._text_seen_at_last_look + LOOK_EVERY:
            return False
        self._text_seen_at_last_look = self._text_seen
        size = process_bytes(resident=True)
        if size is None or self._size_when_built is None:
            return self._text_seen >= UNSEEN_LIMIT
        return size - self._size_when_built > GROWTH_LIMIT


def build_gigatoken(tree: dict[str, Any], where: str) -> Any:
    """gigatoken on a `tokenizer.json`, without special tokens: `</s>` in a text stays text."""
    from gigatoken.gigatoken_rs import load_hf_json

    added = [token for token in tree.get("added_tokens") or [] if not token.get("special")]
    with failures_of("gigatoken", f"use {where}"):
        return load_hf_json(json.dumps({**tree, "added_tokens": added}))


def check_address_space(needed: int, num_bytes: int) -> None:
    """Refuse to encode so much text where a limit might end the process in the middle of it."""
    limit = address_space_limit()
    used = process_bytes(resident=False)
    if limit is None or used is None:
        return
    left = limit - used
    if left < needed:
        raise TokenmillError(
            f"the limit of address space (ulimit -v) of {human_bytes(limit)} leaves "
            f"{human_bytes(max(left, 0))}; encoding {human_bytes(num_bytes)} of text may take "
            f"{human_bytes(needed)}",
            hint="raise the limit: ulimit -v unlimited, or as far as you are allowed",
        )
