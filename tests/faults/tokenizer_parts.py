"""A `tokenizer.json` of parts drawn by chance, each of them sound: for `readers.py`.

Damage ends in an error nearly always. Here most files can be read, and must give the ids of the
package: normalizers, splits, options and added tokens meet as no author would put them together.
"""

import json
import random
from pathlib import Path
from typing import Any

import tokenizers
from faults.tokenizer_files import make_pieces_json, make_tokenizer_json

from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.split_patterns import PATTERNS

EXPRESSIONS = [regex for known in PATTERNS.values() for splits in known.splits for regex in splits]
ADDED = ["  ", "<mill>", "the", "\n\n", " t", "\u00e9", "ab", "123", "\u2581", "A", ".", "\u0301"]
BITS = [
    *ADDED, "mill", " ", "\n", "\t", "1", "456789", "'s", "'LL", ",", "e\u0301", "\u0344", "\u0958",
    "\u212b", "\uac00", "\u1100\u1161", "\u6c34", "</s>", "<|endoftext|>", "<unk>", "<x", "##", "K",
    "\U0001f33e", "\u0327\u0301", "\u00a0", "\u3000", "</w>", "\r\n", "-", "\u0130", "\ufb01", "x",
]  # fmt: skip
_CHANCE = random.Random(5)
TEXTS = ["".join(_CHANCE.choices(BITS, k=_CHANCE.randrange(13))) for _ in range(60)]
OPTIONS: dict[str, list[Any]] = {
    "ignore_merges": [True, False], "fuse_unk": [True, False], "unk_token": [None, "<unk>", "a"],
    "continuing_subword_prefix": [None, "", "##"], "end_of_word_suffix": [None, "", "</w>"],
    "byte_fallback": [True, False], "dropout": [None, 0.0],
}  # fmt: skip


def make(folder: Path) -> None:
    for name, make_file in (("bytes", make_tokenizer_json), ("pieces", make_pieces_json)):
        make_file(folder)
        (folder / "tokenizer.json").rename(folder / f"{name}.json")


def mutate_parts(data: bytes, chance: random.Random) -> bytes:
    """The same tokenizer with other parts around it."""
    tree = json.loads(data)
    if chance.random() < 0.7:
        tree["normalizer"] = _normalizer(chance, 0)
    if chance.random() < 0.6:
        tree["pre_tokenizer"] = _pre_tokenizer(chance, 0)
    for name, values in OPTIONS.items():
        if chance.random() < 0.07:
            tree["model"][name] = chance.choice(values)
    if chance.random() < 0.1:
        chance.shuffle(tree["model"]["merges"])
    _add_tokens(tree, chance)
    return json.dumps(tree).encode()


def read(folder: Path, sound: dict[str, bytes]) -> None:
    """Compare ids with the package, and use whatever else a tokenizer has."""
    for name, data in sound.items():
        if (folder / name).read_bytes() == data:
            continue
        end = "</s>" if name == "pieces.json" else "<|endoftext|>"
        found = load_tokenizer.load(str(folder / name), end_of_text=end)
        package = tokenizers.Tokenizer.from_file(str(folder / name))
        package.encode_special_tokens = True
        ids, _ = found.encode_batch([text.encode() for text in TEXTS])
        expected = [package.encode(text, add_special_tokens=False).ids for text in TEXTS]
        assert ids.tolist() == [number for one in expected for number in one], "other ids"
        assert len(found.bytes_of_ids()) == found.vocab_size
        found.decode(ids)
        assert load_tokenizer.from_state(found.state()) == found


def _normalizer(chance: random.Random, depth: int) -> Any:
    some = chance.random() < 0.5
    patterns = [{"String": " "}, {"Regex": " +"}, {"Regex": r"\s"}, {"String": "a"}, {"String": ""}]
    content = chance.choice(["\u2581", "", " ", "b", "b" * 40])
    kinds = ("NFC", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")
    known: list[Any] = [
        None,
        *({"type": kind} for kind in kinds),
        {"type": "Strip", "strip_left": some, "strip_right": not some},
        {"type": "Prepend", "prepend": chance.choice(["\u2581", " ", "x", ""])},
        {"type": "Replace", "pattern": chance.choice(patterns), "content": content},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
         "strip_accents": None, "lowercase": some},
    ]  # fmt: skip
    if depth == 0 and chance.random() < 0.2:
        steps = [_normalizer(chance, 1) for _ in range(chance.randrange(4))]
        return {"type": "Sequence", "normalizers": list(filter(None, steps))}
    return chance.choice(known)


def _pre_tokenizer(chance: random.Random, depth: int) -> Any:
    some = chance.random() < 0.5
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    patterns = [{"Regex": chance.choice(EXPRESSIONS)}, {"String": " "}, {"Regex": r"\d"}]
    split = {"type": "Split", "pattern": patterns[0], "behavior": "Isolated", "invert": False}
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    known: list[Any] = [
        None,
        {**letters, "use_regex": True},
        {**letters, "use_regex": some, "add_prefix_space": not some},
        split,
        {**split, "pattern": chance.choice(patterns), "behavior": chance.choice(behaviors)},
        {**split, "pattern": chance.choice(patterns), "invert": some},
        {"type": "Metaspace", "replacement": "\u2581", "split": some,
         "prepend_scheme": chance.choice(["always", "never", "first"])},
        {"type": "Digits", "individual_digits": some},
        {"type": chance.choice(["Whitespace", "WhitespaceSplit", "UnicodeScripts"])},
        {"type": "Punctuation", "behavior": chance.choice(behaviors)},
    ]  # fmt: skip
    if depth == 0 and chance.random() < 0.3:
        steps = [split, {**letters, "use_regex": False}]
        if some:
            steps = list(filter(None, (_pre_tokenizer(chance, 1) for _ in range(3))))
        return {"type": "Sequence", "pretokenizers": steps}
    return chance.choice(known)


def _add_tokens(tree: Any, chance: random.Random) -> None:
    vocab, added = tree["model"]["vocab"], tree["added_tokens"]
    following = max([*vocab.values(), *(token["id"] for token in added)]) + 1
    for text in chance.sample(ADDED, chance.choice((0, 0, 1, 2, 3))):
        flags = {name: chance.random() < 0.2 for name in ("single_word", "lstrip", "rstrip")}
        flags |= {name: chance.random() < 0.4 for name in ("normalized", "special")}
        added.append({"id": vocab.get(text, following), "content": text, **flags})
        following += text not in vocab
