"""`tokenizer.json`, the file of the Hugging Face `tokenizers` package.

Byte-level BPE of a form that gigatoken has exactly is encoded by gigatoken, anything else by the
`tokenizers` package itself, 20 to 100 times slower. Which of the two is decided once, when the
file is loaded: both encode a probe, and a single other id rules gigatoken out. The choice is
stored in the state.

What text means here:
- nothing is added: the templates of BOS and EOS tokens are not applied;
- tokens marked special, and the end of a text, are not looked for: `</s>` in a document is text;
- added tokens that are not special (runs of spaces in GPT-NeoX) are vocabulary, as for everybody;
- truncation and padding in the file are ignored, and no code is ever loaded beside it.
"""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import FormatError, MissingExtraError
from tokenmill.tokens.cuts import last_cut
from tokenmill.tokens.gigatoken import Encoder
from tokenmill.tokens.tokenizer import Ends, Ids, decode_texts, ends_of
from tokenmill.tokens.tokenizer_json import (
    bytes_of_spelling,
    cuts_of,
    has_fast_form,
    parse,
    spellings_of,
)
from tokenmill.tokens.vocabulary import PROBE, SpelledTokenizer, Vocabulary

# How published tokenizers spell the end of a document.
END_OF_TEXT_NAMES = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<EOS>"),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)

PIECE = 64 << 10  # bytes that `tokenizers` gets at once, where a text may be cut


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
    def _fast(self) -> Encoder:
        return Encoder(functools.partial(_build_fast, self.content, self.end_of_text_id))

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
        return 0 if self.backend == "gigatoken" else 200

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        if self.backend == "gigatoken":
            return self._fast.encode_batch(texts)
        # In pieces: `tokenizers` takes 160 bytes of memory for a byte that it gets at once.
        pieces, last = [], []  # `last`: which piece is the last of each text
        for text in texts:
            start = 0
            while (
                len(text) - start > 2 * PIECE
                and self.cuts is not None
                and (cut := last_cut(self.cuts, text, start, start + PIECE))
            ):
                pieces.append(text[start:cut])
                start = cut
            pieces.append(text[start:])
            last.append(len(pieces) - 1)
        ids, ends = encode_slowly(self._slow, decode_texts(pieces, self.name))
        return ids, ends[np.array(last, np.int64)]

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """The text of these ids, special tokens spelled out."""
        if has_fast_form(self._tree):
            return self._vocabulary.decode(ids)
        known = self._vocabulary.check(ids).tolist()
        text: str = self._slow.decode(known, skip_special_tokens=False)
        return text.encode()

    def _bytes_of(self, spelling: bytes) -> bytes:
        if has_fast_form(self._tree):
            return spelling
        return bytes_of_spelling(self._tree, spelling.decode("utf-8", "surrogatepass"))

    def state(self) -> dict[str, Any]:
        return {
            "kind": "tokenizer.json",
            "name": self.name,
            "backend": self.backend,
            "end_of_text_id": self.end_of_text_id,
            "end_of_text": self.end_of_text,
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
    slow = _build_slow(content, number, str(path))
    backend = "gigatoken" if _fast_is_exact(content, number, slow) else "tokenizers"
    return HuggingFaceTokenizer(path.name, content, number, text, backend)


def from_state(state: dict[str, Any]) -> HuggingFaceTokenizer:
    """The tokenizer of a stored state."""
    backend = str(state["backend"])
    if backend not in ("gigatoken", "tokenizers"):
        raise FormatError(f"the stored tokenizer is encoded by {backend!r}, which is not known")
    end = (int(state["end_of_text_id"]), state["end_of_text"])
    return HuggingFaceTokenizer(str(state["name"]), str(state["json"]), *end, backend)


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


def _fast_is_exact(content: str, end_of_text_id: int, slow: Any) -> bool:
    """Whether gigatoken has this form and gives the ids of `tokenizers` on every probe."""
    tree = json.loads(content)
    if not has_fast_form(tree):
        return False
    added = [str(token["content"]) for token in tree.get("added_tokens") or []]
    probes = [PROBE.decode(), *added, *_WIDE_PROBES]
    probes += [f"word{token}word {token} {token}" for token in added]
    try:
        fast = Encoder(functools.partial(_build_fast, content, end_of_text_id))
        ids, ends = fast.encode_batch([probe.encode() for probe in probes])
    except (ValueError, RuntimeError, OSError):
        return False  # a form that gigatoken does not have; the slow way is the exact one
    slow_ids, slow_ends = encode_slowly(slow, probes)
    return np.array_equal(ids, slow_ids) and np.array_equal(ends, slow_ends)


_WIDE_PROBES = [
    " ".join(map(chr, range(0x21, 0x3000, 5))),
    "".join(map(chr, range(0x20, 0xD7FF, 11))),
    "".join(map(chr, range(0x10000, 0x20000, 37))),
    "".join(f"{a}{b}{c}" for a in "a1.\n \t" for b in "  \n\r\u3000'" for c in "Zs9\n /-"),
    "I'll I'LL don't DON'T we've WE'VE he'd 's'S'T'Re'vE'M'lL",
    "0 12 123 1234 12345 123456789 1,000.00 \u0661\u0662\u0663\u0664 \u00bd\u2167",
]


def _with_special_end(content: str, end_of_text_id: int) -> dict[str, Any]:
    """The tree, with the end of a text marked special even where the file does not."""
    tree: dict[str, Any] = json.loads(content)
    for token in tree.get("added_tokens") or []:
        if token["id"] == end_of_text_id:
            token["special"] = True
    return tree


def _build_fast(content: str, end_of_text_id: int) -> Any:
    """gigatoken without the special tokens, so that their spellings in a text stay text."""
    from gigatoken.gigatoken_rs import load_hf_json

    tree = _with_special_end(content, end_of_text_id)
    tree["added_tokens"] = [t for t in tree.get("added_tokens") or [] if not t.get("special")]
    return load_hf_json(json.dumps(tree))


def _build_slow(content: str, end_of_text_id: int, where: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(where, package="tokenizers", extra="tokenizers") from None
    try:
        tokenizer = Tokenizer.from_str(json.dumps(_with_special_end(content, end_of_text_id)))
    except Exception as error:  # the package raises bare Exceptions
        raise FormatError(f"{where} is not a tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer
