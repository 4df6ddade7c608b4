"""SentencePiece's BPE for gigatoken: models that it has exactly, and the encoder.

gigatoken reads such a model as the `tokenizer.json` with the same merges, in the order of their
scores. That is exact where every score occurs once; where two pieces have one score, sentencepiece
merges the left pair first, wherever it is.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

from tokenmill.errors import FormatError
from tokenmill.tokens.gigatoken import PIECE_BYTES, Encoder, build_gigatoken
from tokenmill.tokens.library_failures import failures_of
from tokenmill.tokens.same_ids import EncodeBatch
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts

LONGEST_PIECE = 512  # bytes; every way to cut a piece in two is looked up


def as_tokenizer_json(model: bytes, processor: Any, where: str) -> dict[str, Any]:
    """The model as the tree of a `tokenizer.json`; FormatError where gigatoken has no such form."""
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


def fast_pieces(tree: dict[str, Any], where: str) -> EncodeBatch:
    """gigatoken on SentencePiece's BPE, without special tokens: `</s>` in a text stays text."""
    build = functools.partial(build_gigatoken, tree, where)
    encode = Encoder(build, memory_per_byte=PIECE_BYTES).encode_batch
    return functools.partial(_checked, encode, where)


def _checked(encode: EncodeBatch, where: str, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
    """gigatoken ends the process where such a text is not UTF-8."""
    decode_texts(texts, where)
    return encode(texts)
