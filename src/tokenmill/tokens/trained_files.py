"""A trained tokenizer as files: `tokenizer.json` for `tokenizers`, a rank file for `tiktoken`.

Ids are the 256 bytes in GPT-2's order, the merges, then the special tokens. A rank file has neither
the special tokens nor the split pattern; `tokenizer.json` has both.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.tokens.merges import BYTE_ORDER, Merge
from tokenmill.tokens.split_patterns import ONE_EXPRESSION
from tokenmill.tokens.tokenizer_json import byte_letters


@dataclass(frozen=True)
class TrainedTokenizer:
    """Merges and special tokens of a trained tokenizer."""

    pattern: str
    merges: Sequence[Merge]
    specials: Sequence[str]

    @property
    def vocab_size(self) -> int:
        return 256 + len(self.merges) + len(self.specials)

    @property
    def special_ids(self) -> dict[str, int]:
        first = 256 + len(self.merges)
        return {text: first + number for number, text in enumerate(self.specials)}

    def spellings(self) -> list[bytes]:
        """Bytes of every id but the special ones."""
        tokens = [bytes([byte]) for byte in BYTE_ORDER]
        for merge in self.merges:
            tokens.append(tokens[merge.left] + tokens[merge.right])
        return tokens

    def to_tiktoken(self) -> bytes:
        """Return one line per token: its bytes in base64, and its rank."""
        lines = (b64encode(token) + b" %d\n" % at for at, token in enumerate(self.spellings()))
        return b"".join(lines)

    def to_tokenizer_json(self) -> bytes:
        """Return the file that `tokenizers.Tokenizer.from_file` reads."""
        letters = {byte: letter for letter, byte in byte_letters().items()}
        tokens = ["".join(map(letters.__getitem__, token)) for token in self.spellings()]
        added = [_added_token(text, number) for text, number in self.special_ids.items()]
        model = {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [[tokens[merge.left], tokens[merge.right]] for merge in self.merges],
        }
        tree = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": _pre_tokenizer(self.pattern),
            "post_processor": None,
            "decoder": _byte_level(use_regex=True),
            "model": model,
        }
        return json.dumps(tree, ensure_ascii=False, indent=1).encode() + b"\n"


def _added_token(text: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, **flags, "special": True}


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    """Return the step that splits; ByteLevel has the pattern of GPT-2 built in."""
    if pattern == "gpt2":
        return _byte_level(use_regex=True)
    regex = {"Regex": ONE_EXPRESSION.get(pattern, pattern)}
    split = {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]}


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    options = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **options}
