"""Tokenizer objects, each reduced to a file that says the same.

The file is in the user's cache folder under the hash of its content, so that a preparation that
resumes finds it again. What an object does by Python code is in no file: its ids are compared with
those of the file, and it is refused where they differ.
"""

import base64
import hashlib
import os
from dataclasses import replace
from typing import Any

import orjson

from tokenmill.base.atomic import user_cache, write_atomically
from tokenmill.errors import FormatError
from tokenmill.tokens.load_tokenizer import STATE_FOLDER, load
from tokenmill.tokens.same_ids import probes
from tokenmill.tokens.split_patterns import find_pattern
from tokenmill.tokens.tiktoken_file import TiktokenTokenizer, bundled_gpt2, from_cache
from tokenmill.tokens.tokenizer import Tokenizer, failures_of


def name_of(given: Any, end_of_text: str | int | None = None) -> str:
    """Return a name or a path as text, and for an object the path of a file that says the same."""
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    if hasattr(given, "tokenizer_fingerprint"):  # a dataset
        given = given.tokenizer
    if hasattr(given, "_mergeable_ranks"):
        given = _from_tiktoken(given, end_of_text)
    if isinstance(given, Tokenizer):
        if given.name in ("bytes", "gpt2", "r50k_base") and given == load(given.name):
            return given.name
        state = orjson.dumps(given.state(), option=orjson.OPT_SORT_KEYS)
        return _keep(given.name.replace("/", "--"), state, STATE_FOLDER)
    if hasattr(backend := getattr(given, "backend_tokenizer", given), "to_str"):
        return _keep("tokenizer.json", _tokenizer_json(given, backend))
    raise TypeError(
        f"tokenizer is {given!r:.80} ({type(given).__module__}.{type(given).__qualname__}); "
        "expected a name, a path, a dataset, what load_tokenizer returns, a tokenizers.Tokenizer, "
        "a fast tokenizer of transformers or a tiktoken.Encoding: others are Python code"
    )


def _keep(name: str, content: bytes, suffix: str = "") -> str:
    """Write a file into a folder that its content names; return its path."""
    path = user_cache("tokenizers") / (hashlib.sha256(content).hexdigest()[:32] + suffix) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return str(path)


def _from_tiktoken(given: Any, end_of_text: str | int | None) -> TiktokenTokenizer:
    """Return the same encoding, by its ranks, pattern and special tokens."""
    from tokenmill.tokens.huggingface import find_end_of_text

    ranks = sorted(given._mergeable_ranks.items(), key=lambda pair: pair[1])
    data = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks)
    specials = dict(given._special_tokens)
    tree = {"added_tokens": [{"content": text, "id": specials[text]} for text in specials]}
    spellings = {number: text.encode() for text, number in specials.items()}
    where = f"tiktoken's encoding {given.name:.80}"
    end = str(find_end_of_text(tree, spellings, end_of_text, where)[1])
    found = TiktokenTokenizer(given.name, find_pattern(given._pat_str), specials, end, data)
    if found == replace(from_cache("gpt2"), name=given.name, data=bundled_gpt2()):
        found = replace(found, data=None)
    _ = found.vocab_size  # refuses ranks that are not a byte-level vocabulary
    _refuse_other_ids(where, given.encode_ordinary, lambda text: found.encode(text).tolist())
    return found


def _tokenizer_json(given: Any, backend: Any) -> bytes:
    """Return the file of an object of tokenizers, or of transformers with such a backend."""
    from tokenizers import Tokenizer as FromFile

    from tokenmill.tokens.tokenizer_json import parse

    where = f"the {type(given).__qualname__}"
    with failures_of("tokenizers", f"write {where} to a file"):
        content: str = backend.to_str(pretty=True)  # as `save` writes it
        copy = FromFile.from_str(content)
    parse(content, where)  # refuses dropout by its name
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = getattr(backend, "encode_special_tokens", False)
    plain: dict[str, Any] = {"add_special_tokens": False}
    own = plain if backend is given else {**plain, "verbose": False}  # of a text that is long

    def encode(text: str) -> Any:
        encoded = given.encode(text, **own)
        return getattr(encoded, "ids", encoded)

    _refuse_other_ids(where, encode, lambda text: copy.encode(text, **plain).ids)
    return content.encode()


def _refuse_other_ids(where: str, by_object: Any, by_file: Any) -> None:
    for text in map(bytes.decode, probes()):
        if list(by_object(text)) != list(by_file(text)):
            raise FormatError(
                f"{where} gives other ids than the file that it writes, for {text[:40]!r}: it "
                "encodes by Python code, or cuts or pads texts",
                hint="call its no_truncation() and no_padding(), or use tokenmill.write_tokens",
            )
