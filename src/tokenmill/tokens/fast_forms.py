"""The forms of a `tokenizer.json` that gigatoken has: byte-level BPE, and SentencePiece's BPE.

Only what published tokenizers are made of. A form is a reason to compare ids (`same_ids.py`), never
to trust: what probes would not show is ruled out here.
"""

from typing import Any

from tokenmill.tokens.split_patterns import PATTERNS, known_to_gigatoken, pattern_of_splits

Tree = dict[str, Any]
# Options of BPE that change ids, and that gigatoken does not look at.
_UNKNOWN_OPTIONS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
_BYTE_PIECES = {f"<0x{byte:02X}>" for byte in range(256)}
_SPACE = "\u2581"  # how SentencePiece writes it
_SPACES_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
_SPACE_PUT_FIRST = {"type": "Prepend", "prepend": _SPACE}


def fast_form(tree: Tree) -> Tree | None:
    """What gigatoken is given for this file; None where the package encodes."""
    model = tree["model"]
    if model.get("type") != "BPE" or any(map(model.get, _UNKNOWN_OPTIONS)):
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
    if pattern is None or pattern.scheme is None:
        return None
    return _with_splits(tree, known_to_gigatoken(pattern)) if splits else tree


def _finds_added_tokens(tree: Tree) -> bool:
    """Return True if gigatoken is sure to find added tokens where `tokenizers` does.

    It looks for them before it normalizes: `A` with an accent after it has one. And a token that
    takes the spaces next to it takes them from a token of spaces.
    """
    added = [token for token in tree.get("added_tokens") or [] if not token.get("special")]
    if any(token.get("single_word") for token in added):
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


def _with_splits(tree: Tree, regexes: tuple[str, ...]) -> Tree:
    """The tree with a pattern written as gigatoken knows it."""
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
