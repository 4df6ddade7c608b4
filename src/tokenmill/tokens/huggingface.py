"""`tokenizer.json`, the file of the Hugging Face `tokenizers` package.

Byte-level BPE and SentencePiece's BPE, of a form that gigatoken has, are encoded by gigatoken once
ids are compared, anything else by the `tokenizers` package, 20 to 100 times slower.
"""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.strict_json import parse_object
from tokenmill.errors import FormatError, MissingExtraError, PrepareError, TokenizerMismatchError
from tokenmill.tokens.cuts import pieces_of
from tokenmill.tokens.gigatoken import PIECE_BYTES, Encoder, build_gigatoken
from tokenmill.tokens.merges import byte_level_tree
from tokenmill.tokens.same_ids import ComparedTokenizer
from tokenmill.tokens.split_alike import with_exact
from tokenmill.tokens.tokenizer import EncodeBatch, decode_texts, ends_of, failures_of
from tokenmill.tokens.tokenizer_json import (
    Tree,
    byte_level_splits,
    bytes_of_spelling,
    cuts_of,
    fast_form,
    is_plain_byte_level,
    parse,
    spellings_of,
    steps_of,
)
from tokenmill.tokens.vocabulary import Ends, GivenIds, Ids, Vocabulary

# How published tokenizers spell the end of a document.
END_OF_TEXT_NAMES = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<EOS>"),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)


@dataclass(frozen=True)
class HuggingFaceTokenizer(ComparedTokenizer):
    """What a `tokenizer.json` says, encoded by gigatoken or by tokenizers."""

    name: str
    content: str = field(repr=False)
    end_of_text_id: int
    end_of_text: str | None
    backend: str = "tokenizers"
    package = "tokenizers"

    @functools.cached_property
    def _tree(self) -> Tree:
        return parse(self.content, self.name)

    @functools.cached_property
    def _encoded_tree(self) -> Tree:
        """The tree, with the end of a text marked special even where the file does not."""
        added = [
            {**token, "special": token.get("special") or token["id"] == self.end_of_text_id}
            for token in self._tree["added_tokens"]
        ]
        return {**self._tree, "added_tokens": added}

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(spellings_of(self._tree, self.name), name=self.name)

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        tree = self._encoded_tree
        form = fast_form(tree)
        if form is None:
            raise FormatError(f"gigatoken has no form of {self.name}")
        build = functools.partial(build_gigatoken, form, self.name)
        splits = byte_level_splits(tree)
        if splits is None:  # SentencePiece's BPE asks for no kinds of characters
            return Encoder(build, is_sentencepiece=True).encode_batch
        is_normalized = tree.get("normalizer") is not None
        fast = Encoder(build).encode_batch
        return with_exact(fast, self._encode_slowly, splits=splits, is_normalized=is_normalized)

    @functools.cached_property
    def _slow(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtraError(self.name, package="tokenizers", extra="tokenizers") from None
        tree = self._encoded_tree
        with failures_of("tokenizers", f"read {self.name}"):
            tokenizer = Tokenizer.from_str(json.dumps(tree))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            tokenizer.encode_special_tokens = True
            _check_added(tokenizer, tree["added_tokens"], self.name)
        return tokenizer

    @functools.cached_property
    def special_ids(self) -> Mapping[str, int]:
        added = self._tree["added_tokens"]
        found = {str(token["content"]): int(token["id"]) for token in added if token.get("special")}
        if self.end_of_text is not None:
            found[self.end_of_text] = self.end_of_text_id
        return found

    @functools.cached_property
    def special_pattern(self) -> str:
        """With the white space that a token takes from the text next to it."""
        tree = self._tree
        tokens = [t for t in tree["added_tokens"] if t["content"] in self.special_ids]
        steps = steps_of(tree.get("pre_tokenizer"), "pretokenizers")
        first = [step for step in steps if step.get("prepend_scheme") == "first"]
        words = [token["content"] for token in tokens if token.get("single_word")]
        if first or words:
            raise FormatError(
                f"{self.name} cannot encode chat: "
                + (
                    f"{words[0]!r} is a special token as a word alone"
                    if words
                    else "only the first piece of a text begins with a space (prepend_scheme)"
                )
            )
        patterns = [
            "\\s*" * bool(token.get("lstrip"))
            + re.escape(token["content"])
            + "\\s*" * bool(token.get("rstrip"))
            for token in sorted(tokens, key=lambda token: len(token["content"]), reverse=True)
        ]
        return "|".join(patterns)

    @functools.cached_property
    def cuts(self) -> re.Pattern[bytes] | None:
        return cuts_of(self._tree)

    @property
    def memory_per_byte(self) -> int:
        """The package `tokenizers` was measured at 130 to 160."""
        if self.backend != "gigatoken":
            return 200
        return PIECE_BYTES if self._tree["model"].get("byte_fallback") else 0

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """Encode text by text, for batches of `tokenizers` start a thread for each core; and in
        pieces, for it takes 160 bytes of memory for each byte that it gets at once."""
        decode_texts(texts, self.name)
        found: list[Ids] = []
        for text in texts:
            ids: list[int] = []
            with failures_of("tokenizers", f"encode a text with {self.name}", kind=PrepareError):
                for piece in pieces_of(text, self.cuts):
                    ids += self._slow.encode(piece.decode(), add_special_tokens=False).ids
            found.append(np.array(ids, np.uint32))
        return np.concatenate([np.empty(0, np.uint32), *found]), ends_of(found)

    @property
    def joins_spellings(self) -> bool:
        return is_plain_byte_level(self._tree)

    def decode(self, ids: GivenIds) -> bytes:
        """The text of these ids, special tokens spelled out."""
        if self.joins_spellings:
            return self._vocabulary.decode(ids)
        known = self._vocabulary.check(ids).tolist()
        text: str = self._slow.decode(known, skip_special_tokens=False)
        return text.encode()

    def _bytes_of(self, spelling: bytes) -> bytes:
        if self.joins_spellings:
            return spelling
        return bytes_of_spelling(self._tree, spelling.decode("utf-8", "surrogatepass"))

    def state(self) -> dict[str, Any]:
        return {
            "kind": "tokenizer.json",
            "name": self.name,
            "backend": self.backend,
            "end_of_text_id": self.end_of_text_id,
            "end_of_text": self.end_of_text,
            "special_ids": self.special_ids,
            "json": self.content,
            "fingerprint": self.fingerprint,
        }


def from_file(path: Path, *, end_of_text: str | int | None) -> HuggingFaceTokenizer:
    """A `tokenizer.json`; the end of a text is found among its added tokens, or named.

    Or the `vocab.json` of GPT-2's two files, of which `merges.txt` is beside it.
    """
    name = path.name
    try:
        content = path.read_text(encoding="utf-8")
        if path.name == "vocab.json":
            name = path.absolute().parent.name
            content = _joined(path, parse_object(content.encode(), str(path)))
    except ValueError as error:
        raise FormatError(f"{path} is not a {path.name}: {error}") from None
    tree = parse(content, str(path))
    spellings = spellings_of(tree, str(path))
    number, text = find_end_of_text(tree, spellings, end_of_text, str(path))
    found = HuggingFaceTokenizer(name, content, number, text)
    vars(found).update(_tree=tree, _vocabulary=Vocabulary(spellings, name=name))
    added = [str(token["content"]) for token in tree["added_tokens"]]
    _ = found._slow  # refuses tokens that the package does not find
    if found._gives_same_ids(added):
        vars(found).update(backend="gigatoken")  # not `replace`: what takes long to build stays
    return found


def _joined(path: Path, vocab: dict[str, Any]) -> str:
    """`vocab.json` and `merges.txt` as one `tokenizer.json`, which splits a text as GPT-2 does.

    Other tokenizers have such files as well and split otherwise; the config beside them says so.
    """
    config = path.with_name("tokenizer_config.json")
    known = parse_object(config.read_bytes(), str(config)) if config.is_file() else {}
    kind = known.get("tokenizer_class")
    if kind not in (None, "GPT2Tokenizer", "GPT2TokenizerFast"):
        raise FormatError(
            f"{config} says that {path} is of a {kind!r:.60}, which may not split a text as GPT-2",
            hint="write its tokenizer.json: AutoTokenizer.from_pretrained(FOLDER)"
            ".save_pretrained(FOLDER)",
        )
    merges = path.with_name("merges.txt")
    if not merges.is_file():
        raise FormatError(f"there is no {merges}, without which {path} is only half a tokenizer")
    lines = merges.read_text(encoding="utf-8").split("\n")
    pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    special = {text: vocab[text] for text in END_OF_TEXT_NAMES if text in vocab}
    return json.dumps(byte_level_tree(vocab, pairs, special))


def from_state(state: dict[str, Any]) -> HuggingFaceTokenizer:
    """The tokenizer of a stored state."""
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    values = (str(state["name"]), str(state["json"]), *end, str(state["backend"]))
    found = HuggingFaceTokenizer(*values).checked()
    if state["special_ids"] != found.special_ids:
        raise TokenizerMismatchError(
            "the special tokens of the stored tokenizer are not those of its file",
            hint="its text would become other ids; the state was edited: fetch it again",
        )
    return found


def find_end_of_text(
    tree: Tree, spellings: dict[int, bytes], given: str | int | None, where: str
) -> tuple[int, str | None]:
    """Return the id that ends a text and how it is written: as given, or by a known spelling."""
    added = {str(token["content"]): int(token["id"]) for token in tree["added_tokens"]}
    shown = ", ".join(sorted(added)[:20]) or "none"
    if isinstance(given, int):
        if given not in spellings:
            raise ValueError(f"end_of_text={given} is not an id of {where}")
        return given, spellings[given].decode("utf-8", "replace")
    if given is not None:
        if given not in added:
            raise ValueError(
                f"end_of_text={given!r} is not one of the added tokens of {where}: {shown}"
            )
        return added[given], given
    found = [name for name in END_OF_TEXT_NAMES if name in added]
    if len(found) == 1:
        return added[found[0]], found[0]
    what = f"has several: {', '.join(found)}" if found else "names none that is known"
    raise FormatError(
        f"it is not clear which token ends a text: {where} {what}",
        hint=f'name it: load("...", end_of_text="</s>"); its added tokens are: {shown}',
    )


def _check_added(tokenizer: Any, added: list[dict[str, Any]], where: str) -> None:
    """Refuse added tokens that `tokenizers` gives other ids, one of two by chance, or for ever."""
    by_text = dict[str, str]()
    for token in added:
        text = token["content"]
        found = tokenizer.token_to_id(text)
        if found not in (None, token["id"]):
            raise FormatError(
                f"{where} gives the added token {text!r:.60} the id {token['id']}, but "
                f"`tokenizers` counts it as {found}: another token has its id, or ids are left out"
            )
        if tokenizer.normalizer is None or not token.get("normalized", True):
            continue
        normal = tokenizer.normalizer.normalize_str(text)
        if not normal:
            raise FormatError(f"{where}: the normalizer leaves nothing of its token {text!r:.60}")
        if by_text.setdefault(normal, text) != text:
            raise FormatError(
                f"{where} has two added tokens that are the same to its normalizer: "
                f"{by_text[normal]!r:.60} and {text!r:.60}"
            )
