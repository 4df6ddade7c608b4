"""The forms of a `tokenizer.json` that gigatoken has: byte-level BPE, and SentencePiece's BPE.

gigatoken refuses parts that it does not know, and ignores some fields of the parts it knows. Those
are looked at here. What has a fast form is then compared with `tokenizers` on many texts: a form
is a reason to try, never to trust.
"""

import re
from itertools import compress
from typing import Any, NamedTuple

from tokenmill.tokens.split_patterns import (
    SplitPattern,
    known_to_gigatoken,
    pattern_of_splits,
)

Tree = dict[str, Any]
# Options of BPE that change ids, and that gigatoken does not look at.
_UNKNOWN_OPTIONS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
# ASCII that no normal form makes of another character, and at whose end no mark is joined.
_NEVER_COMPOSED = r"[^;`K\x80-\U0010ffff]*[^;`A-Za-z<=>\x80-\U0010ffff]"
_BYTE_PIECES = {f"<0x{byte:02X}>" for byte in range(256)}


class FastForm(NamedTuple):
    """What gigatoken is given."""

    tree: Tree
    is_sentencepiece: bool
    in_pairs: bool = False
    """As in `SplitPattern`."""


def fast_form(tree: Tree) -> FastForm | None:
    """What gigatoken is given for this file; None where it is sure to give other ids."""
    model = tree["model"]
    added = tree.get("added_tokens") or []
    added = [token for token in added if not token.get("special")]
    if model.get("type") != "BPE" or any(map(model.get, _UNKNOWN_OPTIONS)):
        return None
    if any(token.get("single_word") for token in added):
        return None
    merges = model.get("merges") or []
    if len(set(map(tuple, merges))) < len(merges):
        return None  # of a merge that is there twice, `tokenizers` takes the last place
    if model.get("byte_fallback"):
        return FastForm(tree, True) if _is_sentencepiece(tree) else None
    splits = byte_level_splits(tree)
    if splits is None:
        return None
    pattern = pattern_of_splits(splits) if splits else None
    if pattern is None:
        return FastForm(tree, False)  # gigatoken may know more patterns than we do
    if pattern.in_pairs and added:
        return None  # a token with three digits in it would be cut
    return FastForm(_with_splits(tree, pattern), False, pattern.in_pairs)


def finds_added_tokens(tree: Tree) -> bool:
    """Whether gigatoken is sure to find added tokens where `tokenizers` does.

    It looks for them before it normalizes: `A` with an accent after it has one. And a token that
    takes the spaces next to it takes them from a token of spaces. Probes do not see either.
    """
    added = [token for token in tree.get("added_tokens") or [] if not token.get("special")]
    texts = [str(token["content"]) for token in added]
    strips = any(token.get("lstrip") or token.get("rstrip") for token in added)
    if strips and any(text != text.strip() for text in texts):
        return False
    if not tree.get("normalizer") or tree["model"].get("byte_fallback"):
        return True  # SentencePiece's normalizers change nothing but spaces
    normalized = [token.get("normalized", True) for token in added]
    return all(map(re.compile(_NEVER_COMPOSED).fullmatch, compress(texts, normalized)))


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


def _with_splits(tree: Tree, pattern: SplitPattern) -> Tree:
    """The tree with a pattern written as gigatoken knows it."""
    last = steps_of(tree["pre_tokenizer"], "pretokenizers")[-1]
    splits = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in known_to_gigatoken(pattern)
    ]
    return {**tree, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, last]}}


def _is_sentencepiece(tree: Tree) -> bool:
    """Whether every byte has a piece, and nothing but white space is split."""
    vocab = tree["model"]["vocab"]
    steps = steps_of(tree.get("pre_tokenizer"), "pretokenizers")
    return isinstance(vocab, dict) and vocab.keys() >= _BYTE_PIECES and all(map(_at_spaces, steps))


def _at_spaces(step: Tree) -> bool:
    if step.get("type") == "Metaspace":
        return True
    is_plain = step.get("behavior") == "MergedWithPrevious" and not step.get("invert")
    return step.get("type") == "Split" and is_plain and step.get("pattern") == {"String": " "}
