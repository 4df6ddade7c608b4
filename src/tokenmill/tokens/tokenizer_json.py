"""What a `tokenizer.json` says about itself: its spellings, its form, where it may be cut."""

import functools
import json
import re
from typing import Any

from tokenmill.errors import FormatError
from tokenmill.tokens.cuts import AT_SPACES_AND_COMMAS
from tokenmill.tokens.vocabulary import bytes_of_piece, check_ids

# Split patterns as published files write them; for each of them the argument of cuts.py holds.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CASED = r"[^\r\n\p{L}\p{N}]?"
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|" + _CASED + r"\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
KNOWN_PATTERNS = {
    "gpt2": _GPT2,
    "llama3": _LETTERS + r"|\p{N}{1,3}" + _REST,
    "qwen2": _LETTERS + r"|\p{N}" + _REST,
    "o200k": (
        f"{_CASED}{_UPPER}*{_LOWER}+{_SUFFIX}{_CASED}{_UPPER}+{_LOWER}*{_SUFFIX}"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}

# Options of BPE that change ids.
_OPTIONS = ("dropout", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")


def parse(content: str, where: str) -> dict[str, Any]:
    """The JSON tree of a tokenizer; FormatError if it is something else."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not a tokenizer.json: {error}") from None
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(model, dict) or "vocab" not in model:
        raise FormatError(f"{where} is JSON, but not a tokenizer.json: it has no model.vocab")
    return tree


def has_fast_form(tree: dict[str, Any]) -> bool:
    """Byte-level BPE without options that gigatoken might not know."""
    return tree.get("normalizer") is None and _is_byte_level(tree)


def _is_byte_level(tree: dict[str, Any]) -> bool:
    model = tree["model"]
    plain = model.get("type") == "BPE" and not any(map(model.get, _OPTIONS))
    return plain and split_pattern(tree) is not None


def split_pattern(tree: dict[str, Any]) -> str | None:
    """The pattern that splits a text before byte-level BPE; None for any other form."""
    step = tree.get("pre_tokenizer")
    if not isinstance(step, dict):
        return None
    steps: Any = step.get("pretokenizers") if step.get("type") == "Sequence" else [step]
    last = steps[-1] if isinstance(steps, list) and steps else {}
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space", True):
        return None
    if len(steps) == 1:
        return _GPT2 if last.get("use_regex", True) else None
    first = steps[0]
    plain = (
        len(steps) == 2
        and first.get("type") == "Split"
        and first.get("behavior") == "Isolated"
        and not first.get("invert")
        and not last.get("use_regex", True)
        and isinstance(first.get("pattern"), dict)
    )
    return first["pattern"].get("Regex") if plain else None


def cuts_of(tree: dict[str, Any]) -> re.Pattern[bytes] | None:
    """Safe cuts for the known patterns, unless an added token could contain one."""
    if not _is_byte_level(tree) or split_pattern(tree) not in KNOWN_PATTERNS.values():
        return None
    if not _keeps_cuts(tree.get("normalizer")):
        return None
    for token in tree.get("added_tokens") or []:
        if token.get("special"):
            continue  # never looked for in a text
        takes_more = any(map(token.get, ("lstrip", "rstrip", "single_word")))
        if takes_more or str(token["content"]).strip():
            return None
    return AT_SPACES_AND_COMMAS


def _keeps_cuts(normalizer: Any) -> bool:
    """Whether a text may be normalized in two parts, and is white space where it was before.

    This holds for lower case, letter by letter, and for NFC and NFD: nothing joins a space, a
    newline or what comes after a cut. NFKC turns some signs into spaces.
    """
    if normalizer is None:
        return True
    steps = normalizer.get("normalizers") if normalizer.get("type") == "Sequence" else [normalizer]
    return isinstance(steps, list) and all(
        isinstance(step, dict) and step.get("type") in ("Lowercase", "NFC", "NFD") for step in steps
    )


def spellings_of(tree: dict[str, Any], where: str) -> dict[int, bytes]:
    """id -> bytes. Byte-level spellings become the bytes they mean, others their UTF-8."""
    vocab = tree["model"]["vocab"]
    to_bytes = _from_byte_level if has_fast_form(tree) else _from_text
    try:
        if isinstance(vocab, dict):
            spellings = {int(number): to_bytes(text) for text, number in vocab.items()}
        else:
            spellings = {number: to_bytes(entry[0]) for number, entry in enumerate(vocab)}
        for token in tree.get("added_tokens") or []:
            spellings[int(token["id"])] = _from_text(token["content"])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"{where} has a vocabulary that cannot be read: {error!r}") from None
    check_ids(spellings, where)
    return spellings


def bytes_of_spelling(tree: dict[str, Any], spelling: str) -> bytes:
    """What a token that is spelled like this in the file adds to a text."""
    model, steps = tree["model"], _steps(tree.get("pre_tokenizer"), "pretokenizers")
    if any(step.get("type") == "ByteLevel" for step in steps):
        return _from_byte_level(spelling)
    if model.get("type") == "WordPiece":
        return _from_text(spelling.removeprefix(str(model.get("continuing_subword_prefix"))))
    return bytes_of_piece(_from_text(spelling))


def _steps(part: Any, key: str) -> list[dict[str, Any]]:
    """The steps of a normalizer or pre-tokenizer, one or a sequence, of any depth."""
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    inner = part.get(key)
    return [step for one in inner for step in _steps(one, key)] if isinstance(inner, list) else []


def _from_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _from_byte_level(text: str) -> bytes:
    letters = _byte_letters()
    try:
        return bytes(letters[letter] for letter in text)
    except KeyError:
        return _from_text(text)  # a special token is in the vocabulary as it is


@functools.cache
def _byte_letters() -> dict[str, int]:
    """GPT-2's way to write a byte as a letter: printable ones as they are, others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return {**letters, **{chr(0x100 + rank): byte for rank, byte in enumerate(others)}}
