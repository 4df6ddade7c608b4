"""SentencePiece `.model` files: BPE with byte fallback through gigatoken, where its ids are those
of the sentencepiece package; others, such as unigram models, through that package, a few MB/s.

Encoding follows the model's own normalisation, so decoding gives back the normalised text, not
always the same bytes. Begin and end pieces are never added, and their spellings in a text are
text. Texts are never cut: a piece may hold anything, also spaces.
"""

import base64
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import FormatError, MissingExtraError, PrepareError
from tokenmill.tokens.gigatoken import PIECE_BYTES
from tokenmill.tokens.library_failures import failures_of
from tokenmill.tokens.same_ids import EncodeBatch, first_difference, in_context, probes
from tokenmill.tokens.sentencepiece_form import as_tokenizer_json, fast_pieces
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts, ends_of
from tokenmill.tokens.vocabulary import SpelledTokenizer, Vocabulary, bytes_of_piece

MOST_PIECES = 200  # that are looked for in a text as they are


@dataclass(frozen=True)
class SentencePieceTokenizer(SpelledTokenizer):
    """A SentencePiece model."""

    name: str
    model: bytes = field(repr=False)
    end_of_text_id: int
    end_of_text: str | None = None
    backend: str = "sentencepiece"
    """`gigatoken` or `sentencepiece`."""

    @property
    def memory_per_byte(self) -> int:
        """The package `sentencepiece` was measured at 20."""
        return PIECE_BYTES if self.backend == "gigatoken" else 30

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        return fast_pieces(as_tokenizer_json(self.model, self._processor, self.name), self.name)

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
        return self._fast(texts) if self.backend == "gigatoken" else self._encode_slowly(texts)

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        strings = decode_texts(texts, self.name)
        with failures_of("sentencepiece", f"encode a text with {self.name}", kind=PrepareError):
            lists = self._processor.encode(strings, out_type=int, num_threads=1) if strings else []
        total = sum(map(len, lists))
        return np.fromiter(itertools.chain.from_iterable(lists), np.uint32, total), ends_of(lists)

    def reference(self) -> "SentencePieceTokenizer | None":
        """The same tokenizer, encoded by `sentencepiece`; None if it is this one."""
        return replace(self, backend="sentencepiece") if self.backend == "gigatoken" else None

    @property
    def joins_spellings(self) -> bool:
        return False  # a space before the first word is left out

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
            "backend": self.backend,
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
    found = SentencePieceTokenizer(path.name, model, number, processor.id_to_piece(number))
    try:
        differs = first_difference(found._fast, found._encode_slowly, _probes(found))
    except (FormatError, PrepareError):
        return found  # a form that gigatoken does not have
    return found if differs is not None else replace(found, backend="gigatoken")


def _probes(tokenizer: SentencePieceTokenizer) -> list[bytes]:
    """Also with pieces that are never text, and pieces that are taken whole."""
    pieces = tokenizer._vocabulary.spellings.values()
    strange = [p.decode() for p in pieces if p.startswith((b"<", b"[")) or not p.strip()]
    return probes() + in_context([*tokenizer.special_ids, *strange[:MOST_PIECES]])


def from_state(state: dict[str, Any]) -> SentencePieceTokenizer:
    """The tokenizer of a stored state."""
    model = base64.b64decode(state["model"], validate=True)
    backend = str(state["backend"])
    if backend not in ("gigatoken", "sentencepiece"):
        raise FormatError(f"the stored tokenizer is encoded by {backend!r}, which is not known")
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    found = SentencePieceTokenizer(str(state["name"]), model, *end, backend)
    if not 0 <= found.end_of_text_id < found.vocab_size:
        raise FormatError(f"the end-of-text id {found.end_of_text_id} is not in the vocabulary")
    return found


def _processor(model: bytes, where: str) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise MissingExtraError(
            f"the SentencePiece model {where}", package="sentencepiece", extra="sentencepiece"
        ) from None
    processor = SentencePieceProcessor()
    with failures_of("sentencepiece", f"read {where}, which is not a SentencePiece model"):
        loaded = processor.LoadFromSerializedProto(model)
        processor.id_to_piece(list(range(processor.vocab_size())))  # every piece is text
    if not loaded:
        raise FormatError(f"{where} is not a SentencePiece model")
    return processor
