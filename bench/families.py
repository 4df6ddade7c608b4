"""Tokenizers of every family, trained here on text of many scripts; each a file to load.

Byte-level BPE has one vocabulary a split pattern. SentencePiece's BPE is trained once, and written
in the ways of Llama 2, Mistral and Gemma.
"""

import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenmill.tokens.split_patterns import PATTERNS

VOCABULARY = 16_000
# As a `tokenizer.json` writes cl100k.
CL100K = PATTERNS["llama3"].splits[1]
BYTE_LEVEL = {
    "GPT-2": PATTERNS["gpt2"].splits[1],
    "cl100k": CL100K,
    "o200k": PATTERNS["o200k"].splits[0],
    "Llama 3": PATTERNS["llama3"].splits[0],
    "Qwen 2": PATTERNS["qwen2"].splits[0],
    "DeepSeek 3": PATTERNS["deepseek3"].splits[0],
}
_PREPEND = {"type": "Prepend", "prepend": "\u2581"}
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
_METASPACE = {
    "type": "Metaspace",
    "replacement": "\u2581",
    "prepend_scheme": "first",
    "split": False,
}
_SPLIT = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}
_PIECES: dict[str, dict[str, Any]] = {
    "Llama 2": {"normalizer": {"type": "Sequence", "normalizers": [_PREPEND, _REPLACE]}},
    "Mistral": {"normalizer": None, "pre_tokenizer": _METASPACE},
    "Gemma": {"normalizer": _REPLACE, "pre_tokenizer": _SPLIT},
}
SENTENCEPIECE = (*_PIECES, "Llama 2, .model")
SLOW = ("Unigram, .model", "Unigram", "WordPiece")
FAMILIES = (*BYTE_LEVEL, *SENTENCEPIECE, *SLOW)


def train(family: str, folder: Path, texts: list[str]) -> Path:
    """The file of a family in a folder, trained if it is not there yet."""
    suffix = ".model" if family.endswith(".model") else ".json"
    path = folder / f"{family.split(',')[0].replace(' ', '-')}{suffix}"
    if path.exists():
        return path
    if family in BYTE_LEVEL:
        _byte_level(BYTE_LEVEL[family], texts).save(str(path))
    elif family in _PIECES:
        model = train("Llama 2, .model", folder, texts).read_bytes()
        path.write_text(json.dumps(_as_json(model, _PIECES[family])))
    elif suffix == ".model":
        path.write_bytes(_sentencepiece(texts, "bpe" if "Llama" in family else "unigram"))
    else:
        _package(family, texts).save(str(path))
    return path


def _byte_level(splits: tuple[str, ...], texts: list[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    steps = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in splits]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _fit(tokenizer, trainers.BpeTrainer, texts, "<|endoftext|>", initial_alphabet=alphabet)
    return tokenizer


def _fit(
    tokenizer: Any, trainer: Callable[..., Any], texts: list[str], *special: str, **options: Any
) -> None:
    tokenizer.train_from_iterator(
        texts,
        trainer(
            vocab_size=VOCABULARY, special_tokens=list(special), show_progress=False, **options
        ),
    )


def _package(family: str, texts: list[str]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    if family == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        _fit(tokenizer, trainers.WordPieceTrainer, texts, "[UNK]", "</s>")
        return tokenizer
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    _fit(tokenizer, trainers.UnigramTrainer, texts, "<unk>", "</s>", unk_token="<unk>")
    return tokenizer


def _sentencepiece(texts: list[str], kind: str) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    lines = itertools.chain.from_iterable(text.splitlines() for text in texts)
    as_it_is = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, model_type=kind, vocab_size=VOCABULARY,
        byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True, num_threads=2,
        character_coverage=0.9995, max_sentence_length=100_000, minloglevel=2,
        **(as_it_is if kind == "bpe" else {}),
    )  # fmt: skip
    return model.getvalue()


def _as_json(model: bytes, parts: dict[str, Any]) -> dict[str, Any]:
    from gigatoken._load.sentencepiece import sentencepiece_to_tokenizer_json

    return {**json.loads(sentencepiece_to_tokenizer_json(model)), **parts}
