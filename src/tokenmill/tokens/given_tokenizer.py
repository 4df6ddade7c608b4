"""Tokenizer objects, each reduced to a file that says the same.

The packages `tokenizers` and transformers give their `tokenizer.json`, tiktoken ranks and pattern,
our own objects their state. The file is in the user's cache folder under the hash of its content,
so that a preparation that resumes finds it again. What an object does by Python code is in no file:
its ids are compared with those of the file, and it is refused where they differ.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from tokenmill.base.atomic import user_cache, write_atomically
from tokenmill.base.human import one_line
from tokenmill.errors import FormatError
from tokenmill.tokens.same_ids import probes
from tokenmill.tokens.split_patterns import find_pattern
from tokenmill.tokens.tiktoken_file import TiktokenTokenizer, bundled_gpt2, from_cache
from tokenmill.tokens.tokenizer import Tokenizer, failures_of

_BUILT_IN = ("bytes", "gpt2", "r50k_base")  # names that are here without any file
Encode = Callable[[str], Sequence[int]]


def name_of(given: Any, end_of_text: str | int | None = None) -> str:
    """Return a name or a path as text, and for an object the path of a file that says the same."""
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    given = own_or_foreign(given)
    if hasattr(given, "_mergeable_ranks"):
        given = _from_tiktoken(given, end_of_text)
    if isinstance(given, Tokenizer):
        from tokenmill.tokens.load_tokenizer import STATES, load

        if given.name in _BUILT_IN and given == load(given.name):
            return given.name
        state = orjson.dumps(given.state(), option=orjson.OPT_SORT_KEYS)
        return _keep({given.name.replace("/", "--") + STATES[1]: state})
    if hasattr(backend := getattr(given, "backend_tokenizer", given), "to_str"):
        return _keep(_hugging_face_files(given, backend))
    raise TypeError(
        f"tokenizer is {given!r:.80} ({type(given).__module__}.{type(given).__qualname__}); "
        "expected a name, a path, a dataset, what tokenmill.load_tokenizer returns, a "
        "tokenizers.Tokenizer, a fast tokenizer of transformers or a tiktoken.Encoding. Others "
        "encode by Python code, which is in no file"
    )


def own_or_foreign(given: Any) -> Any:
    """Return the tokenizer of a dataset, and any other object as it is."""
    if not hasattr(given, "tokenizer_fingerprint"):
        return given
    if given.tokenizer is None:
        raise ValueError(f"nothing in {given.path} names the tokenizer that made it")
    return given.tokenizer


def _keep(files: dict[str, bytes]) -> str:
    """Write files into a folder that their content names; return the path of the first one."""
    digest = hashlib.sha256(b"\0".join(files.values())).hexdigest()
    folder = user_cache("tokenizers") / digest[:32]
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)
    return str(folder / next(iter(files)))


def _from_tiktoken(given: Any, end_of_text: str | int | None) -> TiktokenTokenizer:
    """The same encoding, by its ranks, pattern and special tokens."""
    from tokenmill.tokens.huggingface import find_end_of_text

    ranks = sorted(given._mergeable_ranks.items(), key=lambda pair: pair[1])
    data = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks)
    specials = dict(given._special_tokens)
    added = [{"content": text, "id": number} for text, number in specials.items()]
    spellings = {number: text.encode() for text, number in specials.items()}
    where = f"tiktoken's encoding {one_line(given.name)}"
    _, end = find_end_of_text({"added_tokens": added}, spellings, end_of_text, where)
    found = TiktokenTokenizer(given.name, find_pattern(given._pat_str), specials, str(end), data)
    if found == replace(from_cache("gpt2"), name=given.name, data=bundled_gpt2()):
        found = replace(found, data=None)
    _ = found.vocab_size  # refuses ranks that are not a byte-level vocabulary
    _refuse_other_ids(where, given.encode_ordinary, lambda text: found.encode(text).tolist())
    return found


def _hugging_face_files(given: Any, backend: Any) -> dict[str, bytes]:
    """`tokenizer.json`, and with it which token ends a text, where the object says so."""
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
    options: dict[str, Any] = {"add_special_tokens": False}
    if backend is not given:
        options["verbose"] = False  # transformers warns of texts longer than its model takes

    def encode(text: str) -> Sequence[int]:
        encoded = given.encode(text, **options)
        return getattr(encoded, "ids", encoded)  # type: ignore[no-any-return]

    plain = {"add_special_tokens": False}
    _refuse_other_ids(where, encode, lambda text: copy.encode(text, **plain).ids)
    files = {"tokenizer.json": content.encode()}
    if (end := getattr(given, "eos_token", None)) is not None:
        files["tokenizer_config.json"] = json.dumps({"eos_token": str(end)}).encode()
    return files


def _refuse_other_ids(where: str, by_object: Encode, by_file: Encode) -> None:
    for text in map(bytes.decode, probes()):
        if list(by_object(text)) != list(by_file(text)):
            raise FormatError(
                f"{where} gives other ids than the file that it writes, for {text[:40]!r}: it "
                "encodes by Python code, or cuts or pads texts",
                hint="call its no_truncation() and no_padding(); or encode with it yourself, and "
                "write the ids: tokenmill.write_tokens",
            )
