"""`tokenizer.json`, the file of the Hugging Face `tokenizers` package.

Byte-level BPE and SentencePiece's BPE, of a form that gigatoken has exactly, are encoded by
gigatoken, anything else by the `tokenizers` package itself, 20 to 100 times slower. Which of the
two is decided once, when the file is loaded: both encode texts of many scripts, and a single other
id rules gigatoken out. The choice is stored in the state.

What text means here:
- nothing is added: the templates of BOS and EOS tokens are not applied;
- tokens marked special, and the end of a text, are not looked for: `</s>` in a document is text;
- added tokens that are not special (runs of spaces in GPT-NeoX) are vocabulary, as for everybody;
- truncation and padding in the file are ignored, and no code is ever loaded beside it.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import (
    FormatError,
    MissingExtraError,
    PrepareError,
    TokenizerMismatchError,
)
from tokenmill.tokens.cuts import pieces_of
from tokenmill.tokens.fast_forms import byte_level_splits, fast_form, finds_added_tokens
from tokenmill.tokens.gigatoken import (
    PIECE_BYTES,
    Encoder,
    build_gigatoken,
    encode_in_pieces,
)
from tokenmill.tokens.library_failures import failures_of
from tokenmill.tokens.newer_characters import with_exact
from tokenmill.tokens.number_runs import in_pairs
from tokenmill.tokens.same_ids import EncodeBatch, first_difference, in_context, probes
from tokenmill.tokens.sentencepiece_form import fast_pieces
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts, ends_of
from tokenmill.tokens.tokenizer_json import (
    bytes_of_spelling,
    cuts_of,
    is_plain_byte_level,
    parse,
    spellings_of,
)
from tokenmill.tokens.vocabulary import SpelledTokenizer, Vocabulary

# How published tokenizers spell the end of a document.
END_OF_TEXT_NAMES = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<EOS>"),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)


@dataclass(frozen=True)
class HuggingFaceTokenizer(SpelledTokenizer):
    """What a `tokenizer.json` says, encoded by gigatoken or by tokenizers."""

    name: str
    content: str = field(repr=False)
    end_of_text_id: int
    end_of_text: str | None
    backend: str
    """`gigatoken` or `tokenizers`."""

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        tree = _with_special_end(self.content, self.end_of_text_id)
        fast = _fast_encoder(tree, self.name)
        splits = byte_level_splits(tree)
        if splits is None:
            return fast  # SentencePiece's BPE asks for no kinds of characters
        return with_exact(
            fast,
            self._encode_slowly,
            splits=splits,
            cuts=self.cuts,
            is_normalized=tree.get("normalizer") is not None,
        )

    @functools.cached_property
    def _tree(self) -> dict[str, Any]:
        return parse(self.content, self.name)

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(spellings_of(self._tree, self.name), name=self.name)

    @functools.cached_property
    def _slow(self) -> Any:
        return _build_slow(self.content, self.end_of_text_id, self.name)

    @functools.cached_property
    def vocab_size(self) -> int:
        return self._vocabulary.size

    @functools.cached_property
    def special_ids(self) -> Mapping[str, int]:
        added = self._tree.get("added_tokens") or []
        found = {str(token["content"]): int(token["id"]) for token in added if token.get("special")}
        if self.end_of_text is not None:
            found[self.end_of_text] = self.end_of_text_id
        return found

    @functools.cached_property
    def cuts(self) -> re.Pattern[bytes] | None:
        return cuts_of(self._tree)

    @property
    def memory_per_byte(self) -> int:
        """The package `tokenizers` was measured at 130 to 160."""
        if self.backend != "gigatoken":
            return 200
        return PIECE_BYTES if self._tree["model"].get("byte_fallback") else 0

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        return self._fast(texts) if self.backend == "gigatoken" else self._encode_slowly(texts)

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """In pieces: `tokenizers` takes 160 bytes of memory for each byte that it gets at once."""
        pieces = functools.partial(pieces_of, cuts=self.cuts)
        return encode_in_pieces(self._encode_whole, texts, pieces)

    def _encode_whole(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        with failures_of("tokenizers", f"encode a text with {self.name}", kind=PrepareError):
            return encode_slowly(self._slow, decode_texts(texts, self.name))

    def reference(self) -> "HuggingFaceTokenizer | None":
        """The same tokenizer, encoded by `tokenizers`; None if it is this one."""
        return self._with_backend("tokenizers") if self.backend == "gigatoken" else None

    def _with_backend(self, backend: str) -> "HuggingFaceTokenizer":
        other = replace(self, backend=backend)
        built = vars(self)  # what takes long to build is shared
        vars(other).update({n: built[n] for n in ("_tree", "_vocabulary", "_fast") if n in built})
        return other

    @property
    def joins_spellings(self) -> bool:
        return is_plain_byte_level(self._tree)

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
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
    """A `tokenizer.json`; the end of a text is found among its added tokens, or named."""
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a tokenizer.json: {error}") from None
    number, text = _end_of_text(parse(content, str(path)), end_of_text, str(path))
    found = HuggingFaceTokenizer(path.name, content, number, text, "tokenizers")
    _check_added(found, str(path))
    return found._with_backend(_choose_backend(found))


def from_state(state: dict[str, Any]) -> HuggingFaceTokenizer:
    """The tokenizer of a stored state."""
    backend = str(state["backend"])
    if backend not in ("gigatoken", "tokenizers"):
        raise FormatError(f"the stored tokenizer is encoded by {backend!r}, which is not known")
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    found = HuggingFaceTokenizer(str(state["name"]), str(state["json"]), *end, backend)
    if found.end_of_text_id not in found._vocabulary.spellings:
        raise FormatError(f"the end-of-text id {found.end_of_text_id} is not in the vocabulary")
    if state["special_ids"] != found.special_ids:
        raise TokenizerMismatchError(
            "the special tokens of the stored tokenizer are not those of its file",
            hint="its text would become other ids; the state was edited: fetch it again",
        )
    return found


def encode_slowly(tokenizer: Any, strings: Sequence[str]) -> tuple[Ids, Ends]:
    """Encode with the `tokenizers` package, text by text.

    Its own batches would start a thread for each core in every one of our processes.
    """
    parts = [
        np.array(tokenizer.encode(string, add_special_tokens=False).ids, np.uint32)
        for string in strings
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint32), ends_of(parts)


def _end_of_text(
    tree: dict[str, Any], given: str | int | None, where: str
) -> tuple[int, str | None]:
    spellings = spellings_of(tree, where)
    added = {str(token["content"]): int(token["id"]) for token in tree.get("added_tokens") or []}
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
        f"which token ends a text is not clear: {where} {what}",
        hint=f'name it: load("...", end_of_text="</s>"); its added tokens are: {shown}',
    )


def _check_added(tokenizer: HuggingFaceTokenizer, where: str) -> None:
    """Refuse added tokens that `tokenizers` gives other ids, or one of two by chance."""
    slow = tokenizer._slow
    by_text = dict[str, str]()
    for token in tokenizer._tree.get("added_tokens") or []:
        text = token["content"]
        number = token["id"]
        found = slow.token_to_id(text)
        if found not in (None, number):
            raise FormatError(
                f"{where} gives the added token {text!r:.60} the id {number}, but `tokenizers` "
                f"counts it as {found}: another token has its id, or ids are left out"
            )
        if slow.normalizer is not None and token.get("normalized", True):
            normal = slow.normalizer.normalize_str(text)
            if by_text.setdefault(normal, text) != text:
                raise FormatError(
                    f"{where} has two added tokens that are the same to its normalizer: "
                    f"{by_text[normal]!r:.60} and {text!r:.60}"
                )


def _choose_backend(tokenizer: HuggingFaceTokenizer) -> str:
    """gigatoken if it has this form and gives the ids of `tokenizers` for every probe."""
    added = [str(token["content"]) for token in tokenizer._tree.get("added_tokens") or []]
    if not finds_added_tokens(tokenizer._tree):
        return "tokenizers"
    try:
        differs = first_difference(
            tokenizer._fast, tokenizer._encode_slowly, probes() + in_context(added)
        )
    except (FormatError, PrepareError):
        differs = 0  # a form that gigatoken does not have; the slow way is the exact one
    return "gigatoken" if differs is None else "tokenizers"


def _fast_encoder(tree: dict[str, Any], where: str) -> EncodeBatch:
    """gigatoken on this file; FormatError for a form that it does not have."""
    form = fast_form(tree)
    if form is None:
        raise FormatError(f"gigatoken has no form of {where}")
    if form.is_sentencepiece:
        return fast_pieces(form.tree, where)
    encode = Encoder(functools.partial(build_gigatoken, form.tree, where)).encode_batch
    return in_pairs(encode) if form.in_pairs else encode


def _with_special_end(content: str, end_of_text_id: int) -> dict[str, Any]:
    """The tree, with the end of a text marked special even where the file does not."""
    tree: dict[str, Any] = json.loads(content)
    for token in tree.get("added_tokens") or []:
        if token["id"] == end_of_text_id:
            token["special"] = True
    return tree


def _build_slow(content: str, end_of_text_id: int, where: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(where, package="tokenizers", extra="tokenizers") from None
    tree = _with_special_end(content, end_of_text_id)
    with failures_of("tokenizers", f"read {where}"):
        _check_normalized(tree, where, Tokenizer.from_str)
        tokenizer = Tokenizer.from_str(json.dumps(tree))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
    return tokenizer


def _check_normalized(tree: dict[str, Any], where: str, build: Callable[[str], Any]) -> None:
    """Refuse added tokens of which nothing is left: `tokenizers` would find them for ever."""
    added = [token for token in tree.get("added_tokens") or [] if token.get("normalized", True)]
    if not added or not tree.get("normalizer"):
        return
    nothing = {"type": "BPE", "vocab": {}, "merges": []}
    alone = build(
        json.dumps({**tree, "model": nothing, "added_tokens": [], "post_processor": None})
    )
    for token in added:
        if not alone.normalizer.normalize_str(token["content"]):
            raise FormatError(
                f"{where}: the normalizer leaves nothing of its added token "
                f"{token['content']!r:.60}"
            )
