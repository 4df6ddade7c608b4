"""SentencePiece `.model` files: BPE with byte fallback through gigatoken, where its ids are those
of the sentencepiece package; others, such as unigram models, through that package, a few MB/s.

Encoding follows the model's own normalisation, so decoding gives back the normalised text, not
always the same bytes. Texts are never cut: a piece may hold anything, also spaces.
"""

import base64
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import FormatError, MissingExtraError, PrepareError
from tokenmill.tokens.gigatoken import PIECE_BYTES, Encoder, build_gigatoken
from tokenmill.tokens.same_ids import ComparedTokenizer
from tokenmill.tokens.tokenizer import EncodeBatch, decode_texts, ends_of, failures_of
from tokenmill.tokens.vocabulary import Ends, GivenIds, Ids, Vocabulary, bytes_of_piece

MOST_PIECES = 200  # that are looked for in a text as they are
LONGEST_PIECE = 512  # bytes; gigatoken looks up every way to cut a piece in two


@dataclass(frozen=True)
class SentencePieceTokenizer(ComparedTokenizer):
    """A SentencePiece model."""

    name: str
    model: bytes = field(repr=False)
    end_of_text_id: int
    end_of_text: str | None = None
    backend: str = "sentencepiece"
    package = "sentencepiece"

    @property
    def memory_per_byte(self) -> int:
        """The package `sentencepiece` was measured at 20."""
        return PIECE_BYTES if self.backend == "gigatoken" else 30

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        tree = as_tokenizer_json(self.model, self._processor, self.name)
        build = functools.partial(build_gigatoken, tree, self.name)
        return Encoder(build, is_sentencepiece=True).encode_batch

    @functools.cached_property
    def _processor(self) -> Any:
        return _processor(self.model, self.name)

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        pieces = {
            i: self._processor.id_to_piece(i).encode() for i in range(self._processor.vocab_size())
        }
        return Vocabulary(pieces, name=self.name)

    @functools.cached_property
    def special_ids(self) -> Mapping[str, int]:
        """The control pieces, which no text becomes, such as `<s>`."""
        control = filter(self._processor.is_control, range(self.vocab_size))
        return {self._processor.id_to_piece(number): number for number in control}

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        strings = decode_texts(texts, self.name)
        with failures_of("sentencepiece", f"encode a text with {self.name}", kind=PrepareError):
            lists = self._processor.encode(strings, out_type=int, num_threads=1) if strings else []
        total = sum(map(len, lists))
        return np.fromiter(itertools.chain.from_iterable(lists), np.uint32, total), ends_of(lists)

    @property
    def joins_spellings(self) -> bool:
        return False  # a space before the first word is left out

    def decode(self, ids: GivenIds) -> bytes:
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
    pieces = found._vocabulary.spellings.values()
    # Pieces that are never text, or are taken whole.
    strange = [p.decode() for p in pieces if p.startswith((b"<", b"[")) or not p.strip()]
    if found._gives_same_ids([*found.special_ids, *strange[:MOST_PIECES]]):
        return replace(found, backend="gigatoken")
    return found


def from_state(state: dict[str, Any]) -> SentencePieceTokenizer:
    """The tokenizer of a stored state."""
    model = base64.b64decode(state["model"], validate=True)
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    return SentencePieceTokenizer(str(state["name"]), model, *end, str(state["backend"])).checked()


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
    if not loaded or processor.unk_id() < 0:
        raise FormatError(f"{where} is not a SentencePiece model, or has no unknown piece")
    return processor


def as_tokenizer_json(model: bytes, processor: Any, where: str) -> dict[str, Any]:
    """The model as the tree of a `tokenizer.json`; FormatError where gigatoken has no such form.

    The merges are in the order of their scores. That is exact where every score occurs once; where
    two pieces have one score, sentencepiece merges the left pair first, wherever it is.
    """
    from gigatoken._load.sentencepiece import sentencepiece_to_tokenizer_json

    ids = range(processor.vocab_size())
    longest = max(len(processor.id_to_piece(i).encode()) for i in ids)
    if longest > LONGEST_PIECE or any(map(processor.is_unused, ids)):
        raise FormatError(f"gigatoken has no form of {where}: pieces are too long, or not used")
    with failures_of("gigatoken", f"use {where}"):
        tree: dict[str, Any] = json.loads(sentencepiece_to_tokenizer_json(model))
    # Control pieces, and those that are taken whole before anything is merged.
    taken = {token["id"] for token in tree["added_tokens"]}
    scores = [
        processor.get_score(i)
        for i in ids
        if i not in taken and not processor.is_unknown(i) and not processor.is_byte(i)
    ]
    if len(set(scores)) < len(scores):
        raise FormatError(f"gigatoken has no form of {where}: pieces have equal scores")
    return tree
