"""What a `tokenizer.json` says about itself: its spellings, where it may be cut, its fast form.

gigatoken is given only what published tokenizers are made of: byte-level BPE, and SentencePiece's
BPE. A form is a reason to compare ids (`same_ids.py`), never to trust: what probes would not show
is ruled out here.
"""

import functools
import json
import re
from typing import Any

from tokenmill.errors import FormatError
from tokenmill.tokens.cuts import AT_SPACES_AND_COMMAS
from tokenmill.tokens.split_alike import PAIRS
from tokenmill.tokens.split_patterns import PATTERNS, known_to_gigatoken, pattern_of_splits
from tokenmill.tokens.vocabulary import bytes_of_piece

Tree = dict[str, Any]
# Options of BPE that change ids, and that gigatoken does not look at.
_OPTIONS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
_BYTE_PIECES = {f"<0x{byte:02X}>" for byte in range(256)}
_SPACE = "\u2581"  # how SentencePiece writes it
_SPACES_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
_SPACE_PUT_FIRST = {"type": "Prepend", "prepend": _SPACE}
MOST_GROWTH = 64  # characters that a normalizer or decoder may put in the place of one


def parse(content: str, where: str) -> Tree:
    """The JSON tree of a tokenizer; FormatError if it is something else."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not a tokenizer.json: {error}") from None
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(model, dict) or "vocab" not in model:
        raise FormatError(f"{where} is JSON, but not a tokenizer.json: it has no model.vocab")
    if model.get("dropout"):
        raise FormatError(
            f'{where} has "dropout": {model["dropout"]!r:.60}: it gives other ids at every run',
            hint='write "dropout": null there; then a text always has the same ids',
        )
    _check_prefix(model, where)
    tree["added_tokens"] = tree.get("added_tokens") or []
    for part, key in (("normalizer", "normalizers"), ("decoder", "decoders")):
        _check_growth(steps_of(tree.get(part), key), f"{where}: its {part}")
    return tree


def _check_growth(steps: list[Tree], where: str) -> None:
    """Refuse steps that would make gigabytes of a short text, one alone or several in turn."""
    for number, step in enumerate(steps):
        text = 2 * str(step.get("content") or step.get("prepend") or "")  # next to another one
        for later in steps[number + 1 :]:
            text = _replaced(text, later)
        if len(text) > 2 * MOST_GROWTH:
            raise FormatError(
                f"{where} makes more than {MOST_GROWTH} characters of one, with the step "
                f"{json.dumps(step)[:80]}"
            )


def _replaced(text: str, step: Tree) -> str:
    """A text after a later step, or as much of it as is too long anyway."""
    pattern = step.get("pattern")
    content = step.get("content")
    if not isinstance(pattern, dict) or not isinstance(content, str):
        return text
    found = pattern.get("String")
    if isinstance(found, str):
        text = text.replace(found, content[: 2 * MOST_GROWTH + 1])
    elif len(content) > 1:
        text = content[: 2 * MOST_GROWTH + 1] * len(text)  # an expression may match any letter
    return text[: 2 * MOST_GROWTH + 1]


def _check_prefix(model: Tree, where: str) -> None:
    """Refuse merges without the prefix that the file says they have: `tokenizers` would abort."""
    prefix = model.get("continuing_subword_prefix")
    merges = model.get("merges")
    if not isinstance(prefix, str) or not prefix or not isinstance(merges, list):
        return
    for merge in merges:
        right = merge.split(" ")[-1] if isinstance(merge, str) else merge[-1:]
        right = right[0] if isinstance(right, list) and right else right
        if not (isinstance(right, str) and right.startswith(prefix)):
            raise FormatError(
                f"{where}: the merge {merge!r:.60} does not continue with {prefix!r:.60}, its "
                "continuing_subword_prefix"
            )


def is_plain_byte_level(tree: Tree) -> bool:
    """Byte-level BPE, with one split of the text as it is: ids are spelled as bytes of the text.

    Frozen: a file's fingerprint depends on how its ids are spelled.
    """
    is_plain = tree.get("normalizer") is None and _is_byte_level(tree)
    return is_plain and len(byte_level_splits(tree) or ()) <= 1


def _is_byte_level(tree: Tree) -> bool:
    model = tree["model"]
    if model.get("type") != "BPE" or any(map(model.get, (*_OPTIONS, "byte_fallback"))):
        return False
    steps = steps_of(tree.get("pre_tokenizer"), "pretokenizers")
    return byte_level_splits(tree) is not None and not steps[-1].get("add_prefix_space", True)


def cuts_of(tree: Tree) -> re.Pattern[bytes] | None:
    """Safe cuts for the known patterns, unless an added token could contain one."""
    splits = byte_level_splits(tree) if _is_byte_level(tree) else None
    if splits is None or (splits and pattern_of_splits(splits) is None):
        return None
    # A text may be normalized in two parts, letter by letter, and nothing joins a space, a newline
    # or what comes after a cut. NFKC turns some signs into spaces.
    steps = steps_of(tree.get("normalizer"), "normalizers")
    if any(step.get("type") not in ("Lowercase", "NFC", "NFD") for step in steps):
        return None
    for token in tree["added_tokens"]:
        if token.get("special"):
            continue  # never looked for in a text
        takes_more = any(map(token.get, ("lstrip", "rstrip", "single_word")))
        if takes_more or str(token["content"]).strip():
            return None
    return AT_SPACES_AND_COMMAS


def spellings_of(tree: Tree, where: str) -> dict[int, bytes]:
    """id -> bytes. Byte-level spellings become the bytes they mean, others their UTF-8."""
    vocab = tree["model"]["vocab"]
    try:
        is_table = isinstance(vocab, dict)
        texts = list(vocab) if is_table else [entry[0] for entry in vocab]
        numbers = map(int, vocab.values()) if is_table else range(len(texts))
        spell = _from_byte_level if is_plain_byte_level(tree) else _from_text
        spellings = dict(zip(numbers, map(spell, texts), strict=True))
        for token in tree["added_tokens"]:
            spellings[int(token["id"])] = _from_text(token["content"])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"{where} has a vocabulary that cannot be read: {error!r}") from None
    return spellings


def bytes_of_spelling(tree: Tree, spelling: str) -> bytes:
    """What a token that is spelled like this in the file adds to a text."""
    model = tree["model"]
    steps = steps_of(tree.get("pre_tokenizer"), "pretokenizers")
    if any(step.get("type") == "ByteLevel" for step in steps):
        return _from_byte_level(spelling)
    if model.get("type") == "WordPiece":
        return _from_text(spelling.removeprefix(str(model.get("continuing_subword_prefix"))))
    return bytes_of_piece(_from_text(spelling))


def _from_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _from_byte_level(text: str) -> bytes:
    try:
        return text.translate(_bytes_by_letter()).encode("latin-1")
    except UnicodeEncodeError:
        return _from_text(text)  # a special token is in the vocabulary as it is


@functools.cache
def _bytes_by_letter() -> dict[int, str]:
    """For `str.translate`: a letter to the character of its byte, any other to none of Latin-1."""
    bytes_of_letters = {ord(letter): chr(byte) for letter, byte in byte_letters().items()}
    return {**dict.fromkeys(range(256), "\uffff"), **bytes_of_letters}


@functools.cache
def byte_letters() -> dict[str, int]:
    """GPT-2's way to write a byte as a letter: printable ones as they are, others from U+0100.

    They come in the order of GPT-2's ids.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return {**letters, **{chr(0x100 + rank): byte for rank, byte in enumerate(others)}}


def fast_form(tree: Tree) -> Tree | None:
    """What gigatoken is given for this file; None where the package encodes."""
    model = tree["model"]
    if model.get("type") != "BPE" or any(map(model.get, _OPTIONS)):
        return None
    merges = model.get("merges") or []
    if len(set(map(tuple, merges))) < len(merges):
        return None  # of a merge that is there twice, `tokenizers` takes the last place
    if not _finds_added_tokens(tree):
        return None
    if model.get("byte_fallback"):
        return tree if _is_sentencepiece(tree) else None
    if tree.get("normalizer") not in (None, {"type": "NFC"}):
        return None
    splits = byte_level_splits(tree)
    pattern = PATTERNS["gpt2"] if splits == () else pattern_of_splits(splits or ())
    if pattern is None:
        return None
    return with_splits(tree, known_to_gigatoken(pattern)) if splits else tree


def _finds_added_tokens(tree: Tree) -> bool:
    """Return True if gigatoken is sure to find added tokens where `tokenizers` does.

    It looks for them before it normalizes: `A` with an accent after it has one. And a token that
    takes the spaces next to it takes them from a token of spaces. Where numbers are cut into pairs,
    a cut might be inside a token.
    """
    added = [token for token in tree["added_tokens"] if not token.get("special")]
    in_pairs = any(PAIRS in split for split in byte_level_splits(tree) or ())
    if any(in_pairs or token.get("single_word") for token in added):
        return False
    has_spaces = any(token["content"] != token["content"].strip() for token in added)
    if has_spaces and any(token.get("lstrip") or token.get("rstrip") for token in added):
        return False
    is_composed = tree.get("normalizer") == {"type": "NFC"}
    return not (is_composed and any(token.get("normalized", True) for token in added))


def steps_of(part: Any, key: str) -> list[Tree]:
    """The steps of a normalizer or pre-tokenizer: one, or a sequence of any depth."""
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    inner = part.get(key)
    return [step for one in inner for step in steps_of(one, key)] if isinstance(inner, list) else []


def byte_level_splits(tree: Tree) -> tuple[str, ...] | None:
    """The expressions that split a text before byte-level BPE, in turn; none for GPT-2's own.

    None where it is something else.
    """
    *before, last = steps_of(tree.get("pre_tokenizer"), "pretokenizers") or [{}]
    if last.get("type") != "ByteLevel" or last.get("use_regex", True) == bool(before):
        return None
    return (
        tuple(step["pattern"]["Regex"] for step in before) if all(map(_isolates, before)) else None
    )


def _isolates(step: Tree) -> bool:
    pattern = step.get("pattern")
    return (
        step.get("type") == "Split"
        and step.get("behavior") == "Isolated"
        and not step.get("invert")
        and isinstance(pattern, dict)
        and isinstance(pattern.get("Regex"), str)
    )


def with_splits(tree: Tree, regexes: tuple[str, ...]) -> Tree:
    """The tree, split by these expressions in turn before its last step."""
    last = steps_of(tree["pre_tokenizer"], "pretokenizers")[-1]
    splits = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in regexes
    ]
    return {**tree, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, last]}}


def _is_sentencepiece(tree: Tree) -> bool:
    """Return True if every byte has a piece, and nothing but spaces is changed or split."""
    vocab = tree["model"]["vocab"]
    changes = steps_of(tree.get("normalizer"), "normalizers")
    splits = steps_of(tree.get("pre_tokenizer"), "pretokenizers")
    return (
        isinstance(vocab, dict)
        and vocab.keys() >= _BYTE_PIECES
        and all(step in (_SPACE_PUT_FIRST, _SPACES_REPLACED) for step in changes)
        and all(map(_at_spaces, splits))
    )


def _at_spaces(step: Tree) -> bool:
    if step.get("type") == "Metaspace":
        return True
    is_plain = step.get("behavior") == "MergedWithPrevious" and not step.get("invert")
    return step.get("type") == "Split" and is_plain and step.get("pattern") == {"String": " "}
