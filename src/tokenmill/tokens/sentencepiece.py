"""SentencePiece `.model` files, through the sentencepiece package (one core, a few MB/s).

Encoding follows the model's own normalisation, so decoding gives back the normalised text, not
always the same bytes. Begin and end pieces are never added, and their spellings in a text are
text. Texts are never cut: a piece may hold anything, also spaces.
"""

import base64
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import FormatError, MissingExtraError
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts, ends_of
from tokenmill.tokens.vocabulary import SpelledTokenizer, Vocabulary, bytes_of_piece


@dataclass(frozen=True)
class SentencePieceTokenizer(SpelledTokenizer):
    """A SentencePiece model."""

    name: str
    model: bytes = field(repr=False)
    end_of_text_id: int
    end_of_text: str | None = None
    memory_per_byte = 30  # measured at 20

    @functools.cached_property
    def _processor(self) -> Any:
        return _processor(self.model, self.name)

    @functools.cached_property
    def vocab_size(self) -> int:
        """All pieces, control pieces included."""
        return int(self._processor.vocab_size())

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        pieces = {i: self._processor.id_to_piece(i).encode() for i in range(self.vocab_size)}
        return Vocabulary(pieces, name=self.name)

    @functools.cached_property
    def special_ids(self) -> Mapping[str, int]:
        """The control pieces, which no text becomes, such as `<s>`."""
        control = filter(self._processor.is_control, range(self.vocab_size))
        return {self._processor.id_to_piece(number): number for number in control}

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        strings = decode_texts(texts, self.name)
        lists = self._processor.encode(strings, out_type=int, num_threads=1) if strings else []
        total = sum(map(len, lists))
        return np.fromiter(itertools.chain.from_iterable(lists), np.uint32, total), ends_of(lists)

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """The normalised text; control pieces decode to nothing."""
        text: str = self._processor.decode(self._vocabulary.check(ids).tolist())
        return text.encode()

    def _bytes_of(self, spelling: bytes) -> bytes:
        unknown = self._processor.id_to_piece(self._processor.unk_id()).encode()
        return b"" if spelling == unknown else bytes_of_piece(spelling)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "sentencepiece",
            "name": self.name,
            "model": base64.b64encode(self.model).decode("ascii"),
            "end_of_text_id": self.end_of_text_id,
            "end_of_text": self.end_of_text,
            "fingerprint": self.fingerprint,
        }


def from_file(path: Path, *, end_of_text: str | int | None) -> SentencePieceTokenizer:
    """A model file; its own end piece closes documents unless another is named."""
    model = path.read_bytes()
    processor = _processor(model, str(path))
    size = int(processor.vocab_size())
    if end_of_text is None:
        number = int(processor.eos_id())
        if number < 0:
            raise FormatError(
                f"{path} has no end piece, so nothing can close a document",
                hint='name a piece or an id for it: load("...", end_of_text="</s>")',
            )
    elif isinstance(end_of_text, str):
        number = int(processor.piece_to_id(end_of_text))
        if processor.id_to_piece(number) != end_of_text:
            raise ValueError(f"end_of_text={end_of_text!r} is not a piece of {path}")
    else:
        number = end_of_text
    if not 0 <= number < size:
        raise ValueError(f"end_of_text={number} is not an id of {path} ({size:,} ids)")
    return SentencePieceTokenizer(path.name, model, number, processor.id_to_piece(number))


def from_state(state: dict[str, Any]) -> SentencePieceTokenizer:
    """The tokenizer of a stored state."""
    model = base64.b64decode(state["model"], validate=True)
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    return SentencePieceTokenizer(str(state["name"]), model, *end)


def _processor(model: bytes, where: str) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise MissingExtraError(
            f"the SentencePiece model {where}", package="sentencepiece", extra="sentencepiece"
        ) from None
    processor = SentencePieceProcessor()
    try:
        loaded = processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise FormatError(f"{where} is not a SentencePiece model: {error}") from None
    if not loaded:
        raise FormatError(f"{where} is not a SentencePiece model")
    return processor
