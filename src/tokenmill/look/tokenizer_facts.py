"""Facts about a tokenizer: its family, its engine, its ids, its special ids, its split pattern."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from tokenmill.tokens.split_patterns import ONE_EXPRESSION, PATTERNS
from tokenmill.tokens.tokenizer import Tokenizer

FAMILIES = {
    "bytes": "one id a byte",
    "chars": "one id a character",
    "ranks": "byte-level BPE (rank file)",
    "sentencepiece": "SentencePiece model",
}


@dataclass(frozen=True)
class TokenizerFacts:
    """The facts that `tokenizer show` prints."""

    name: str
    family: str
    engine: str
    """The library that encodes."""
    vocab_size: int
    end_of_text_id: int
    special_ids: dict[str, int]
    pattern: str | None
    """The split pattern by name, or as it is written; None where the family has none."""
    regex: str | None
    """The pattern of that name as a regular expression, where the file has it."""
    longest_token: int
    """Bytes."""
    fingerprint: str


def facts_of(tokenizer: Tokenizer) -> TokenizerFacts:
    """Return the facts about a tokenizer."""
    state = tokenizer.state()
    kind = str(state["kind"])
    tree = orjson.loads(state["json"]) if kind == "tokenizer.json" else {}
    splits = tuple(_split_regexes(tree.get("pre_tokenizer")))
    regex = " then ".join(splits) or None
    name = next((name for name, known in PATTERNS.items() if splits in known.splits), regex)
    return TokenizerFacts(
        tokenizer.name,
        FAMILIES.get(kind) or _family(tree),
        tokenizer.backend,
        tokenizer.vocab_size,
        tokenizer.end_of_text_id,
        dict(sorted(tokenizer.special_ids.items(), key=lambda item: item[1])),
        state.get("pattern") or name,
        regex,
        max(map(len, tokenizer.bytes_of_ids()), default=0),
        tokenizer.fingerprint,
    )


def _family(tree: dict[str, Any]) -> str:
    """Of a `tokenizer.json`: its model, and what that works on."""
    model = tree["model"]
    kind = model.get("type") or "BPE"
    if kind == "BPE" and model.get("byte_fallback"):
        return "BPE with byte fallback, as SentencePiece has it"
    if kind == "BPE" and "ByteLevel" in orjson.dumps(tree.get("pre_tokenizer")).decode():
        return "byte-level BPE"
    return str(kind)


def _split_regexes(step: Any) -> Iterator[str]:
    """The patterns that split a text, in turn."""
    if not isinstance(step, dict):
        return
    for inner in step.get("pretokenizers") or ():
        yield from _split_regexes(inner)
    if step.get("type") == "Split" and isinstance(step.get("pattern"), dict):
        yield from (str(text) for text in step["pattern"].values())
    if step.get("type") == "ByteLevel" and step.get("use_regex", True):
        yield ONE_EXPRESSION["gpt2"]
