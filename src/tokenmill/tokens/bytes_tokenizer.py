"""`bytes`: the id of a byte is the byte; 256 is the end of a text. Takes any bytes at all."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.tokenizer import Ends, Ids
from tokenmill.tokens.tokenizer_fingerprint import PROBE, fingerprint
from tokenmill.tokens.vocabulary import Vocabulary


@dataclass(frozen=True)
class BytesTokenizer:
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
    def fingerprint(self) -> str:
        """Hash of the vocabulary and of the probe's ids."""
        return fingerprint(_spellings(), self.encode_batch([PROBE])[0])

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """Widen each byte."""
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), dtype=np.int64)
        return np.frombuffer(b"".join(texts), np.uint8).astype(np.uint32), ends

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """The bytes; end-of-text decodes to nothing."""
        return Vocabulary(_spellings(), name=self.name).decode(ids)

    def state(self) -> dict[str, Any]:
        """A name is all it takes."""
        return {"kind": "bytes", "name": self.name, "fingerprint": self.fingerprint}


def _spellings() -> dict[int, bytes]:
    return {**{b: bytes([b]) for b in range(256)}, 256: b""}
