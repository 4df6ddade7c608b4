"""A tokenizer by name, by path, from an object or a dataset; and which id begins a document.

Nothing is fetched from a network, but for a name of the hub (hub/tokenizer_files.py), and no code
that comes with a tokenizer is run.
"""

import importlib
import os
import re
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.human import one_line
from tokenmill.base.signatures import checks_arguments
from tokenmill.base.suggest import did_you_mean
from tokenmill.errors import FormatError, TokenizerMismatchError
from tokenmill.tokens.tokenizer import Tokenizer

ENCODINGS = ("gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base")
NAMES = ("bytes", "chars", *ENCODINGS)
FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "tokenizer_state.json")  # in turn
STATE_FOLDER = ".state"  # how the name of a folder ends that has the state of an object
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(?<!\.json)(?<!\.model)(?<!\.tiktoken)(@[\w./-]+)?")
# The kind in a stored state -> the module of its family, imported when it is used.
FAMILIES = {
    "bytes": "bytes_and_chars",
    "chars": "bytes_and_chars",
    "ranks": "tiktoken_file",
    "tokenizer.json": "huggingface",
    "sentencepiece": "sentencepiece",
}
# How published tokenizers spell the token that begins a document: `auto` takes it.
BEGIN_NAMES = (
    *("<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "[BOS]", "<BOS>", "<|startoftext|>"),
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
)


@checks_arguments
def load(
    name_or_path: Any,
    *,
    end_of_text: str | int | None = None,
    pattern: str | None = None,
) -> Tokenizer:
    """The tokenizer of this name, in this file, folder or dataset, or on the hub (`OWNER/NAME`).

    An object of `tokenizers`, transformers or tiktoken gives its own ids, or is refused.
    `end_of_text` (a token or an id) and `pattern` say what some files do not; a name needs neither.
    `chars` must first see the text: `CharsTokenizer.learn`.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        if isinstance(name_or_path, Tokenizer) and end_of_text is pattern is None:
            return name_or_path
        from tokenmill.tokens.given_tokenizer import name_of

        name_or_path = name_of(name_or_path, end_of_text)
    name = os.fspath(name_or_path)
    if name in NAMES:
        if end_of_text is not None or pattern is not None:
            raise ValueError(f"{name} has its own end-of-text id and pattern; leave both out")
        if name == "chars":
            raise ValueError(
                "chars has no vocabulary before it has seen the text; `tokenmill pretokenize` and "
                "`prepare` learn one from it, and CharsTokenizer.learn(texts)"
            )
        is_bytes = name == "bytes"
        return _call("bytes", "BytesTokenizer") if is_bytes else _call("ranks", "from_cache", name)
    path = Path(name)
    if not os.path.exists(name) and HUB_NAME.fullmatch(name):
        from tokenmill.hub.tokenizer_files import fetch_tokenizer

        folder, commit = fetch_tokenizer(name)
        tokenizer = load(folder, end_of_text=end_of_text, pattern=pattern)
        vars(tokenizer).update(name=commit)  # not `replace`: what takes long to build stays
        return tokenizer
    if os.path.isdir(name):
        path = next(filter(Path.is_file, (path / file for file in FILES)), path)
    if not os.path.isfile(path):
        known = f"neither a name ({', '.join(NAMES)}), nor a file here, nor OWNER/NAME of the hub"
        raise ValueError(f"no tokenizer {name!r:.80}: {known}{did_you_mean(name, NAMES)}")
    if path.name == FILES[-1] or path.parent.suffix == STATE_FOLDER:
        tokenizer = from_bytes(path.read_bytes(), str(path))
        end = tokenizer.end_of_text
        if end_of_text not in (None, end, tokenizer.end_of_text_id) or pattern is not None:
            raise ValueError(f"end_of_text={end_of_text!r:.80}: {tokenizer.name} has {end!r}")
        return tokenizer
    if path.suffix == ".tiktoken":
        if isinstance(end_of_text, str) and end_of_text.isdecimal():
            end_of_text = int(end_of_text)
        if isinstance(end_of_text, str):
            raise ValueError(
                f"end_of_text={end_of_text!r}: a rank file names no special tokens; pass the id"
            )
        return _call("ranks", "from_file", path, pattern=pattern, end_of_text=end_of_text)
    if pattern is not None:
        raise ValueError(f"pattern={pattern!r} is for .tiktoken files; {path} has its own")
    if path.suffix == ".json":
        return _call("tokenizer.json", "from_file", path, end_of_text=end_of_text)
    if path.suffix == ".model":
        return _call("sentencepiece", "from_file", path, end_of_text=end_of_text)
    raise FormatError(
        f"{path} is not a tokenizer file by its name",
        hint="known are tokenizer.json, *.tiktoken and SentencePiece *.model",
    )


def _call(kind: str, function: str, *values: Any, **options: Any) -> Tokenizer:
    module = importlib.import_module(f"tokenmill.tokens.{FAMILIES[kind]}")
    tokenizer: Tokenizer = getattr(module, function)(*values, **options)
    return tokenizer


def from_bytes(data: bytes, where: str) -> Tokenizer:
    """The tokenizer stored in a `tokenizer_state.json`; `where` is what errors call the file."""
    try:
        return from_state(orjson.loads(data))
    except (ValueError, TypeError, FormatError) as error:
        raise FormatError(
            f"the tokenizer in {where} cannot be read: {getattr(error, 'message', error)}",
            hint=getattr(error, "hint", None)
            or "the file is damaged; fetch it again, or name the tokenizer: "
            'tokenmill.open("...", tokenizer="gpt2")',
        ) from error


def stated(data: bytes) -> tuple[str | None, str | None]:
    """Kind and fingerprint in a `tokenizer_state.json`; None where it cannot be read."""
    try:
        state = orjson.loads(data)
        return str(state["kind"]), str(state["fingerprint"])
    except (ValueError, TypeError, KeyError):
        return None, None


def from_state(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer that gave this state; refused when it would now give other ids."""
    kind = state.get("kind") if isinstance(state, dict) else None
    if str(kind) not in FAMILIES:
        raise FormatError(
            f"a tokenizer of kind {kind!r} is not known", hint="a newer tokenmill may know it"
        )
    try:
        tokenizer = _call(str(kind), "from_state", state)
        found = tokenizer.fingerprint
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"the stored state of a {kind} tokenizer is not complete: {error!r}"
        ) from error
    expected = state.get("fingerprint")
    if expected != found:
        raise TokenizerMismatchError(
            f"the stored tokenizer {one_line(tokenizer.name)} has fingerprint "
            f"{one_line(str(expected))}, but on this machine it behaves as {found}",
            hint="ids would mean different text; the state was edited, or a library that encodes "
            "has changed: compare the versions of gigatoken, tokenizers and sentencepiece",
        )
    return tokenizer


def check_stated(
    tokenizer: Tokenizer,
    where: str,
    *,
    vocab_size: int | None,
    end_of_text_id: int | None,
    fingerprint: str | None,
) -> None:
    """Refuse a stored tokenizer that is not the one that the manifest next to it describes."""
    pairs = {
        "number of ids": (tokenizer.vocab_size, vocab_size),
        "end-of-text id": (tokenizer.end_of_text_id, end_of_text_id),
        "fingerprint": (tokenizer.fingerprint, fingerprint),
    }
    wrong = [
        f"{name} {is_} (manifest: {said})" for name, (is_, said) in pairs.items() if is_ != said
    ]
    if wrong:
        raise TokenizerMismatchError(
            f"the tokenizer in {where} is not the one that the manifest describes: "
            f"{', '.join(wrong)}",
            hint="ids would mean different text; fetch the dataset again, or prepare it again",
        )


def with_begin_token(tokenizer: Tokenizer, given: str) -> Tokenizer:
    """The tokenizer, with a begin token where `given` is a free id of a rank file."""
    if given.isdecimal():
        tokenizer = tokenizer.with_begin_token(int(given))
    find_begin_token(tokenizer, given)
    return tokenizer


def find_begin_token(tokenizer: Tokenizer, given: str) -> int:
    """The id that `given` names; refused if it is unknown, or ends documents already."""
    known = tokenizer.special_ids
    name = tokenizer.name
    if given == "auto":
        given = _only_known(tokenizer)
    if given in known:
        found = known[given]
    elif not given.isdecimal():
        raise ValueError(
            f"begin_token={given!r} is not one of the special tokens of {name}: "
            f"{_listed(tokenizer)}; name one of them, or an id"
        )
    else:
        found = int(given)
        if found >= tokenizer.vocab_size:
            raise ValueError(
                f"begin_token={found} is not an id of {name} ({tokenizer.vocab_size:,} ids)"
            )
    if found == tokenizer.end_of_text_id:
        raise ValueError(
            f"begin_token={given!r} is the end-of-text token of {name} (id {found}): it would be "
            "doubled between two documents. Choose another, or leave begin_token out here and let "
            f"the loader put it there: BatchLoader(..., begin_token={found})"
        )
    return found


def _only_known(tokenizer: Tokenizer) -> str:
    found = [name for name in BEGIN_NAMES if name in tokenizer.special_ids]
    if len(found) == 1:
        return found[0]
    what = f"has several: {', '.join(found)}" if found else "has none that is known"
    size = tokenizer.vocab_size
    free = f": {size} is free" if tokenizer.with_begin_token(size) is not tokenizer else ""
    raise ValueError(
        f"begin_token='auto': which token begins a text is not clear, {tokenizer.name} {what} "
        f"(its special tokens: {_listed(tokenizer)}); name it, or an id{free}"
    )


def _listed(tokenizer: Tokenizer) -> str:
    return ", ".join(sorted(tokenizer.special_ids)[:20]) or "none"
