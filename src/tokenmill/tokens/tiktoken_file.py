"""`.tiktoken` rank files: gpt2, which is bundled, cl100k_base, o200k_base and others.

A rank file lists tokens and nothing else: neither the pattern that splits a text into pieces nor
the special ids. Both come from the table of published encodings, by the file's sha256, or must be
stated.
"""

import binascii
import functools
import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from tokenmill.errors import (
    BadInputError,
    FormatError,
    MissingExtraError,
    PrepareError,
    TokenmillError,
)
from tokenmill.tokens.cuts import AT_SPACES_AND_COMMAS
from tokenmill.tokens.gigatoken import Encoder
from tokenmill.tokens.same_ids import ComparedTokenizer
from tokenmill.tokens.split_alike import with_exact
from tokenmill.tokens.split_patterns import ONE_EXPRESSION, PATTERNS, find_pattern
from tokenmill.tokens.tokenizer import EncodeBatch, decode_texts, ends_of, failures_of
from tokenmill.tokens.vocabulary import PROBE, Ends, Ids, Vocabulary

BUNDLED = Path(__file__).parent / "data" / "gpt2.tiktoken"
END_OF_TEXT = "<|endoftext|>"
BEGIN_OF_TEXT = "<|begin_of_text|>"  # a rank file spells no special tokens, so we do
MOST_FREE_IDS = 1024  # that may be left out before a begin token


class Encoding(NamedTuple):
    """A published encoding: what its rank file does not say."""

    pattern: str
    sha256: str
    end_of_text_id: int
    other_specials: Mapping[str, int] = {}


_FIM = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}
_GPT2 = Encoding("gpt2", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", 50256)
ENCODINGS = {
    "gpt2": _GPT2,
    "r50k_base": _GPT2,
    "p50k_base": Encoding(
        "gpt2", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069", 50256
    ),
    "cl100k_base": Encoding(
        "cl100k",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        100257,
        {**_FIM, "<|endofprompt|>": 100276},
    ),
    "o200k_base": Encoding(
        "o200k",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        199999,
        {"<|endofprompt|>": 200018},
    ),
}
# Where tiktoken has rank files from; the name in its cache is the sha1 of this.
URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"

# The bundled file is checked by its sha256, so these two go together; a test computes both.
GPT2_PROBE_IDS = "346d31e4ad3d3b2bfeed42390634af40"
GPT2_FINGERPRINT = "0535bd0bd9170bb53321b65a1c3f17ba"


@dataclass(frozen=True)
class TiktokenTokenizer(ComparedTokenizer):
    """Byte-level BPE by a rank file, through gigatoken; through tiktoken, ten times slower, where
    gigatoken does not know the pattern, or knows characters of a text that tiktoken does not."""

    name: str
    pattern: str
    """A key of PATTERNS, or a regular expression that is not one of them."""
    specials: dict[str, int]
    end_of_text: str
    """A key of `specials`."""
    data: bytes | None = field(default=None, repr=False)
    """The rank file; None: the bundled gpt2."""
    package = "tiktoken"

    def __post_init__(self) -> None:
        find_pattern(self.pattern)
        if self.end_of_text not in self.specials:
            raise ValueError(f"end of text {self.end_of_text!r} is not among {self.specials}")
        if self.data is None and self.specials != {END_OF_TEXT: _GPT2.end_of_text_id}:
            raise ValueError(f"the special tokens of the bundled gpt2 are not {self.specials}")

    @property
    def backend(self) -> str:
        """`gigatoken` or `tiktoken`."""
        return "tiktoken" if self._scheme is None else "gigatoken"

    @property
    def _scheme(self) -> str | None:
        return PATTERNS[self.pattern].scheme if self.pattern in PATTERNS else None

    @property
    def cuts(self) -> re.Pattern[bytes] | None:
        return AT_SPACES_AND_COMMAS if self.pattern in PATTERNS else None

    @property
    def memory_per_byte(self) -> int:
        """tiktoken was measured at 5 to 13."""
        return 20 if self._scheme is None else 0

    @property
    def _regex(self) -> str:
        return ONE_EXPRESSION.get(self.pattern, self.pattern)

    @functools.cached_property
    def _fast(self) -> EncodeBatch:
        fast = Encoder(functools.partial(_build, self.data, str(self._scheme))).encode_batch
        return with_exact(fast, self._encode_slowly, splits=(self._regex,), is_normalized=False)

    @functools.cached_property
    def _slow(self) -> Any:
        """tiktoken, without special tokens; about 10 MB/s."""
        try:
            from tiktoken import Encoding
        except ImportError:
            unicode = "a text with characters of Unicode 17"
            why = unicode if self._scheme else f"the split pattern of {self.name}"
            raise MissingExtraError(why, package="tiktoken", extra="tiktoken") from None
        ranks = {token: rank for rank, token in parse_ranks(self._ranks, self.name).items()}
        with failures_of("tiktoken", f"use the pattern {self._regex!r:.200}"):
            return Encoding(
                self.name, pat_str=self._regex, mergeable_ranks=ranks, special_tokens={}
            )

    def _encode_slowly(self, texts: Sequence[bytes]) -> tuple[Ids, Ends]:
        """Refuses a text that the pattern does not match as a whole: tiktoken leaves it out."""
        found: list[Ids] = []
        splits = f"split a text by the pattern {self._regex!r:.200}"
        for text, string in zip(texts, decode_texts(texts, self.name), strict=True):
            with failures_of("tiktoken", splits, kind=PrepareError):
                found.append(self._slow.encode_to_numpy(string, disallowed_special=()))
            if (kept := int(self._vocabulary.lengths[found[-1]].sum())) != len(text):
                raise not_matched(self._regex, kept, len(text), "bytes")
        return np.concatenate([np.empty(0, np.uint32), *found]), ends_of(found)

    @property
    def vocab_size(self) -> int:
        return 50257 if self.data is None else self._vocabulary.size

    @property
    def end_of_text_id(self) -> int:
        return self.specials[self.end_of_text]

    @property
    def special_ids(self) -> Mapping[str, int]:
        return self.specials

    def with_begin_token(self, number: int) -> "TiktokenTokenizer":
        """This tokenizer with a free id as its begin token; itself if the id is taken."""
        if number in self._vocabulary.spellings:
            return self
        if number > self.vocab_size + MOST_FREE_IDS:
            raise ValueError(
                f"begin_token={number} is far beyond the {self.vocab_size:,} ids of {self.name}; "
                f"{self.vocab_size} is free"
            )
        return replace(self, specials={**self.specials, BEGIN_OF_TEXT: number}, data=self._ranks)

    @functools.cached_property
    def fingerprint(self) -> str:
        # Of gpt2, `_build` checks it; to compute it takes 0.4 s.
        return GPT2_FINGERPRINT if self.data is None else super().fingerprint

    @property
    def _ranks(self) -> bytes:
        return bundled_gpt2() if self.data is None else self.data

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        spellings = parse_ranks(self._ranks, self.name)
        for text, number in self.specials.items():
            if number in spellings:
                raise ValueError(
                    f"end-of-text id {number} is already a token of {self.name}: "
                    f"{spellings[number]!r}"
                )
            spellings[number] = text.encode()
        return Vocabulary(spellings, name=self.name)

    def state(self) -> dict[str, Any]:
        """What `from_state` needs; gpt2 is bundled, others bring their file along."""
        state: dict[str, Any] = {
            "kind": "ranks",
            "name": self.name,
            "pattern": self.pattern,
            "specials": self.specials,
            "end_of_text": self.end_of_text,
            "fingerprint": self.fingerprint,
        }
        if self.data is not None:
            state["ranks"] = self.data.decode("ascii")
        return state


def from_file(path: Path, *, pattern: str | None, end_of_text: int | None) -> TiktokenTokenizer:
    """A rank file; pattern and end-of-text id by its sha256, or stated."""
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    known = next((name for name, e in ENCODINGS.items() if e.sha256 == sha256), None)
    if known is not None and pattern is None and end_of_text is None:
        return _published(known, data)
    if pattern is None or end_of_text is None:
        missing = "pattern" if pattern is None else "end-of-text id"
        raise FormatError(
            f"{path} is not one of the published rank files (sha256 {sha256[:12]}...), so its "
            f"{missing} is unknown",
            hint='say what it is: load("...", pattern="cl100k", end_of_text=100257); '
            f"patterns are: {', '.join(sorted(PATTERNS))}, or a regular expression",
        )
    specials = {END_OF_TEXT: end_of_text}
    tokenizer = TiktokenTokenizer(path.name, find_pattern(pattern), specials, END_OF_TEXT, data)
    _ = tokenizer.vocab_size, tokenizer.encode(b"a")  # now, so that a bad file is refused here
    return tokenizer


def from_cache(name: str) -> TiktokenTokenizer:
    """A published encoding by name: bundled, or from the files tiktoken has fetched before."""
    if ENCODINGS[name] is _GPT2:
        return _published(name, None)
    url = URL.format(name=name)
    # Where tiktoken keeps what it fetched, in its own order of preference.
    named = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    digest = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    path = Path(named or f"{tempfile.gettempdir()}/data-gym-cache", digest)
    if path.is_file():
        data = path.read_bytes()
        _check_sha256(data, ENCODINGS[name], path)
        return _published(name, data)
    raise FormatError(
        f"the rank file of {name} is not on this machine (looked for {path})",
        hint=f"fetch {url} where there is a network, then pass the path of the file, "
        "or set TIKTOKEN_CACHE_DIR to a cache that tiktoken has filled",
    )


def from_state(state: dict[str, Any]) -> TiktokenTokenizer:
    """The tokenizer of a stored state."""
    ranks = state.get("ranks")
    return TiktokenTokenizer(
        str(state["name"]),
        str(state["pattern"]),
        {str(text): int(number) for text, number in state["specials"].items()},
        str(state["end_of_text"]),
        None if ranks is None else str(ranks).encode("ascii"),
    )


def bundled_gpt2() -> bytes:
    """The bundled rank file, checked."""
    data = BUNDLED.read_bytes()
    _check_sha256(data, _GPT2, BUNDLED)
    return data


def parse_ranks(data: bytes, name: str) -> dict[int, bytes]:
    """Rank -> token of a rank file: lines of base64, a space, a number."""
    spellings: dict[int, bytes] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            spelling = binascii.a2b_base64(token, strict_mode=True)
            key = int(rank)
        except (ValueError, binascii.Error):
            raise FormatError(
                f"{name}, line {number}: {line[:40]!r} is not a token and its rank"
            ) from None
        if key < 0 or key in spellings or not spelling:
            raise FormatError(f"{name}, line {number}: rank {key} is out of range or comes twice")
        spellings[key] = spelling
    missing = {bytes([b]) for b in range(256)} - set(spellings.values())
    if missing:
        raise FormatError(
            f"{name} is not a byte-level vocabulary: {len(missing)} of the 256 single bytes have "
            f"no rank, such as {min(missing)!r}"
        )
    if len(set(spellings.values())) < len(spellings):
        twice = next(token for token, n in Counter(spellings.values()).items() if n > 1)
        raise FormatError(f"{name}: the token {twice!r:.60} comes twice")
    return spellings


def _published(name: str, data: bytes | None) -> TiktokenTokenizer:
    encoding = ENCODINGS[name]
    specials = {END_OF_TEXT: encoding.end_of_text_id, **encoding.other_specials}
    data = None if encoding is _GPT2 else data  # which is bundled
    return TiktokenTokenizer(name, encoding.pattern, specials, END_OF_TEXT, data)


def _check_sha256(data: bytes, encoding: Encoding, path: Path) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != encoding.sha256:
        raise FormatError(
            f"{path} is damaged: its sha256 is {found}, expected {encoding.sha256}",
            hint="fetch the file again, or install tokenmill again if it is the bundled one",
        )


def _build(data: bytes | None, scheme: str) -> Any:
    """gigatoken on these ranks, without special tokens: `<|endoftext|>` in a text stays text."""
    from gigatoken.gigatoken_rs import BPETokenizer

    if data is None:
        bundled_gpt2()
        encoder = BPETokenizer.from_tiktoken(str(BUNDLED), scheme)
        if xxhash.xxh3_128_hexdigest(encoder.encode(PROBE).data) != GPT2_PROBE_IDS:
            raise TokenmillError(
                "the installed gigatoken gives other ids than GPT-2's",
                hint="install the version that tokenmill asks for: pip install tokenmill",
            )
        return encoder
    # gigatoken reads rank files by path only.
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        file.write(data)
        file.flush()
        with failures_of("gigatoken", "use the rank file"):
            return BPETokenizer.from_tiktoken(file.name, scheme)


def not_matched(pattern: str, kept: int, size: int, unit: str) -> BadInputError:
    """Of a text that a pattern does not match as a whole."""
    return BadInputError(
        f"the pattern {pattern!r:.200} matches {kept:,} of the {size:,} {unit} of a text; "
        "the rest would be lost",
        hint=r"add an alternative for all other characters, such as |[\s\S]",
    )
