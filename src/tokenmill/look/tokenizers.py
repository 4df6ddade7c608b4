"""What a tokenizer is; and two on the same text: bytes per token, tokens per word, speed.

By script, pieces are encoded by themselves, so that the sum over all scripts can differ from the
whole by the tokens at the cuts. Speed is that of one process, warmed up.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from tokenmill.base.human import human_bytes
from tokenmill.base.suggest import check_at_least_one
from tokenmill.errors import BadInputError
from tokenmill.look.text_scripts import cut_by_script
from tokenmill.look.token_sample import spread
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import cut_into_units
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.cuts import AT_SPACES_AND_COMMAS
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.split_patterns import ONE_EXPRESSION, PATTERNS
from tokenmill.tokens.tokenizer import Tokenizer

SAMPLE = 8 << 20
PIECE = 256 << 10  # bytes read in one place; fewer of many files
LEAST_PIECE = 4 << 10
MOST_FILES = 1024  # that are read
WARM_UP = b"Words, numbers 123 and signs: what is built when it is first used is built."
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
    if not isinstance(step, dict):
        return
    for inner in step.get("pretokenizers") or ():
        yield from _split_regexes(inner)
    if step.get("type") == "Split" and isinstance(step.get("pattern"), dict):
        yield from (str(text) for text in step["pattern"].values())
    if step.get("type") == "ByteLevel" and step.get("use_regex", True):
        yield ONE_EXPRESSION["gpt2"]


@dataclass(frozen=True)
class ScriptFigures:
    """The text of one script, and the tokens that both make of it."""

    script: str
    text_bytes: int
    words: int
    tokens: tuple[int, int]

    @property
    def fertility(self) -> tuple[float, float]:
        """Tokens a word."""
        words = max(1, self.words)
        return self.tokens[0] / words, self.tokens[1] / words

    @property
    def bytes_per_token(self) -> tuple[float, float]:
        """Of the text of this script."""
        first, second = self.tokens
        return self.text_bytes / max(1, first), self.text_bytes / max(1, second)


@dataclass(frozen=True)
class Compared:
    """One of the two."""

    name: str
    family: str
    engine: str
    vocab_size: int
    tokens: int
    bytes_per_token: float
    tokens_per_word: float
    used_ids: int
    """Different ids that the text became."""
    bytes_per_second: float


@dataclass(frozen=True)
class Comparison:
    """Figures of two tokenizers on the same text."""

    files: int
    bytes_in: int
    documents: int
    text_bytes: int
    """Of the sample; all of the text where the inputs are small."""
    words: int
    tokenizers: tuple[Compared, Compared]
    scripts: tuple[ScriptFigures, ...]
    """The scripts of the text, the largest first."""
    shared_tokens: int
    """Spellings that are in both vocabularies."""

    def side_by_side(self) -> list[tuple[str, str, str]]:
        """Each figure by name, of the one and of the other; speed comes last."""
        first, second = map(self._figures, self.tokenizers)
        return [(name, first[name], second[name]) for name in first]

    def _figures(self, one: Compared) -> dict[str, str]:
        size = one.vocab_size
        return {
            "family": one.family,
            "engine": one.engine,
            "ids": f"{size:,}",
            "ids used": f"{one.used_ids:,} ({one.used_ids / size:.1%})",
            "tokens in both": f"{self.shared_tokens:,} ({self.shared_tokens / size:.1%})",
            "tokens": f"{one.tokens:,}",
            "bytes a token": f"{one.bytes_per_token:.3f}",
            "tokens a word": f"{one.tokens_per_word:.3f}" if self.words else "-",
            "speed": f"{human_bytes(one.bytes_per_second)}/s",
        }


def compare_tokenizers(
    first: str,
    second: str,
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    sample: int = SAMPLE,
    text_field: str = "text",
    separator: str | None = None,
) -> Comparison:
    """Encode the same text with both; names and paths are those that `prepare` takes."""
    check_at_least_one(sample=sample)
    pair = (load(first), load(second))
    sources = find_sources([inputs] if isinstance(inputs, str | os.PathLike) else inputs)
    rules = ReadRules(text_field=text_field, separator=separator, long_line=PIECE)
    batches = list(_sampled(sources, rules, sample))
    if not any(map(len, batches)):
        raise BadInputError("the inputs hold no text to compare on")
    scripts = _by_script(pair, batches)
    text_bytes = sum(script.text_bytes for script in scripts)
    words = sum(script.words for script in scripts)
    vocabularies = [set(filter(None, tokenizer.bytes_of_ids())) for tokenizer in pair]
    return Comparison(
        len(sources),
        sum(source.size for source in sources),
        sum(map(len, batches)),
        text_bytes,
        words,
        (_measure(first, pair[0], batches, words), _measure(second, pair[1], batches, words)),
        scripts,
        len(vocabularies[0] & vocabularies[1]),
    )


def _by_script(
    pair: tuple[Tokenizer, Tokenizer], batches: list[list[bytes]]
) -> tuple[ScriptFigures, ...]:
    text_bytes: Counter[str] = Counter()
    words: Counter[str] = Counter()
    tokens = (Counter[str](), Counter[str]())
    for texts in batches:
        pieces = [piece for text in texts for piece in cut_by_script(text)]
        for piece in pieces:
            text_bytes[piece.script] += len(piece.text)
            words[piece.script] += piece.num_words
        for tokenizer, counts in zip(pair, tokens, strict=True):
            _, ends = tokenizer.encode_batch([piece.text for piece in pieces])
            for piece, length in zip(pieces, np.diff(ends, prepend=0).tolist(), strict=True):
                counts[piece.script] += length
    order = sorted(text_bytes, key=lambda name: (-text_bytes[name], name))
    return tuple(
        ScriptFigures(name, text_bytes[name], words[name], (tokens[0][name], tokens[1][name]))
        for name in order
    )


def _measure(name: str, tokenizer: Tokenizer, batches: list[list[bytes]], words: int) -> Compared:
    tokenizer.encode_batch([WARM_UP])
    used = np.zeros(tokenizer.vocab_size, bool)
    num_tokens = 0
    text_bytes = 0
    seconds = 0.0
    for texts in batches:
        started = time.perf_counter()
        ids, _ = tokenizer.encode_batch(texts)
        seconds += time.perf_counter() - started
        used[ids] = True
        num_tokens += len(ids)
        text_bytes += sum(map(len, texts))
    facts = facts_of(tokenizer)
    return Compared(
        name,
        facts.family,
        facts.engine,
        facts.vocab_size,
        num_tokens,
        text_bytes / max(1, num_tokens),
        num_tokens / max(1, words),
        int(used.sum()),
        text_bytes / max(seconds, 1e-9),
    )


def _sampled(sources: Sequence[Source], rules: ReadRules, sample: int) -> Iterator[list[bytes]]:
    """Texts of about `sample` bytes in all, evenly spaced, at least one from each file."""
    sources = sources[:: -(-len(sources) // MOST_FILES)]
    piece = min(PIECE, max(LEAST_PIECE, sample // len(sources)))
    rules = replace(rules, cuts=AT_SPACES_AND_COMMAS, chunk_bytes=piece)
    total = sum(source.size for source in sources)
    for source in sources:
        share = max(piece, sample * source.size // max(1, total))
        units = cut_into_units([source], piece)
        limit = share  # bytes of text from each unit
        if source.size > share:
            units = [units[number] for number in spread(share // piece, len(units))]
            limit = share // len(units)
        for unit in units:
            left = limit
            for chunk in read_unit(source, unit, rules):
                yield [text for text in chunk.texts if text]
                left -= sum(map(len, chunk.texts))
                if left <= 0:
                    break
