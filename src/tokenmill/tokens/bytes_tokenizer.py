"""`bytes`: the id of a byte is the byte; 256 is the end of a text. Takes any bytes at all."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.tokenizer import Ends, Ids, ends_of
from tokenmill.tokens.vocabulary import SpelledTokenizer, Vocabulary


@dataclass(frozen=True)
class BytesTokenizer(SpelledTokenizer):
    """One id a byte."""

    name: str = "bytes"
    vocab_size: int = 257
    end_of_text_id: int = 256
    end_of_text: str | None = None
    """None: 256 has no spelling in a text, so no text can be mistaken for it."""

    @property
    def cuts(self) -> re.Pattern[bytes]:
        """Before any character (any byte would do; characters keep the parts valid UTF-8)."""
        return AT_CHARACTERS

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary({**{b: bytes([b]) for b in range(256)}, 256: b""}, name=self.name)

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        return np.frombuffer(b"".join(texts), np.uint8).astype(np.uint32), ends_of(texts)

    def state(self) -> dict[str, Any]:
        return {"kind": "bytes", "name": self.name, "fingerprint": self.fingerprint}
