"""One text file becomes one `.npy` beside it: `corpus.txt` -> `corpus.npy`.

For a corpus in one file and a script that wants one array. The text is taken as it is: no
cleaning, no deduplication, not a byte changed. It is one document, and no end-of-text id is added;
with `separator` the documents between separators each get one. Reads and writes block by block:
memory does not grow with the file. Stopped and started again, it goes on, and the bytes are the
same. Beside the array lies `corpus.tokenizer_state.json`, enough to decode it elsewhere, and to
tell whether it is what is asked for when the command is given again.

One core, about half as fast as the bare tokenizer: 28 MB of English at 220 MB/s where gigatoken
alone does 430. For many files, several cores, or a split for validation, use `prepare`.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.base.atomic import write_atomically
from tokenmill.errors import BadInputError, MismatchError, PrepareError, TokenizerMismatchError
from tokenmill.preparation.growing_npy import open_npy
from tokenmill.shards.manifest import dtype_for
from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.decompress import Plain, Stream, open_stream
from tokenmill.text.inputs.file_kind import detect_kind, suffixes
from tokenmill.tokens.chars import CharsTokenizer, chars_of
from tokenmill.tokens.encode_stream import BLOCK, Place, blocks_of_characters, encode_stream
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tokenizer import Tokenizer

DTYPES = ("uint16", "uint32", "int32", "int64")
SAVE_EVERY = 256 << 20  # bytes of text; what a kill can cost, about two seconds of work

Progress = Callable[["Text", Place], None]


@dataclass(frozen=True, slots=True)
class Text:
    """A text file and the array that belongs to it."""

    path: Path
    npy: Path
    state: Path
    compression: str | None
    size: int
    mtime_ns: int

    def open(self) -> Plain | Stream:
        """The text from its start."""
        return open_stream(str(self.path), self.compression, str(self.path))


@dataclass(frozen=True, slots=True)
class Pretokenized:
    """What became of one text."""

    text: str
    npy: str
    tokenizer: str
    dtype: str
    tokens: int
    documents: int
    """Documents that got an end-of-text id: 0 without a separator."""
    characters: int | None
    """None for an array that was kept: the text was not read."""
    bytes: int
    """Size of the `.npy`."""
    kept: bool = False
    """The array was there, newer than the text, and was left alone."""

    @property
    def characters_per_token(self) -> float | None:
        """How much text a token holds."""
        return self.characters / self.tokens if self.characters and self.tokens else None


def pretokenize(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    tokenizer: str | Tokenizer = "gpt2",
    dtype: str | None = None,
    separator: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    block: int = BLOCK,
) -> list[Pretokenized]:
    """Write `FILE.npy` beside each text, and return what was written, in order.

    A `.npy` that is newer than its text is kept, unless `force`; an older one is written anew.
    `dtype` is one of DTYPES; by default the smallest unsigned one that holds the vocabulary.
    `chars` learns one vocabulary from all the texts together.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if separator == "":
        raise ValueError("separator is empty; leave it out to take a file as one document")
    texts = _texts(paths)
    chosen = _tokenizer(tokenizer, texts)
    kind = _dtype(dtype, chosen)
    kept = {text.npy: _kept(text, chosen, kind, separator or "") for text in texts if not force}
    return [
        kept.get(text.npy)
        or _pretokenize_one(text, chosen, kind, (separator or "").encode(), progress, block)
        for text in texts
    ]


def _pretokenize_one(
    text: Text,
    tokenizer: Tokenizer,
    dtype: np.dtype[Any],
    separator: bytes,
    progress: Progress | None,
    block: int,
) -> Pretokenized:
    key = {
        "version": 1,
        "size": text.size,
        "mtime_ns": text.mtime_ns,
        "tokenizer": tokenizer.fingerprint,
        "dtype": dtype.name,
        "separator": separator.decode("utf-8"),
    }
    with open_npy(text.npy, dtype, key) as npy:
        place = start = Place(**npy.start())
        saved = start.bytes
        with text.open() as stream:
            blocks = encode_stream(
                stream,
                tokenizer,
                name=str(text.path),
                separator=separator,
                start=start,
                block=block,
            )
            for ids, reached in blocks:
                place = reached
                npy.append(ids)
                if place.bytes - saved >= SAVE_EVERY:
                    npy.save(dataclasses.asdict(place))
                    saved = place.bytes
                if progress is not None:
                    progress(text, place)
        _check_unchanged(text)
        if not npy.length:
            raise BadInputError(f"{text.path} is empty: there is nothing to tokenize")
        _store_state(text, tokenizer, separator.decode())
        size = npy.finish()
    return Pretokenized(
        text=str(text.path),
        npy=str(text.npy),
        tokenizer=tokenizer.name,
        dtype=dtype.name,
        tokens=place.tokens,
        documents=place.documents,
        characters=place.characters,
        bytes=size,
    )


def _texts(paths: Iterable[str | os.PathLike[str]]) -> list[Text]:
    texts = [_text(Path(path)) for path in paths]
    if not texts:
        raise ValueError("no text file was given")
    owners: dict[Path, Path] = {}
    for text in texts:
        target = text.npy.resolve()
        if target in owners:
            raise ValueError(f"{owners[target]} and {text.path} would both become {text.npy}")
        owners[target] = text.path
    return texts


def _text(path: Path) -> Text:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; `tokenmill prepare` takes folders")
    if path.suffix == ".npy":
        raise ValueError(f"{path} is an array already; give the text it comes from")
    found = open_input.stat(str(path))
    kind, compression = detect_kind(str(path), found.size)
    if kind != "text":
        raise BadInputError(
            f"{path} is {kind}, not plain text",
            hint=f"tokenmill prepare {path} -o OUT reads its documents",
            source=str(path),
        )
    kind_suffix, compression_suffix = suffixes(path.name)
    stem = path.name[: len(path.name) - len(kind_suffix + compression_suffix)]
    return Text(
        path,
        path.with_name(f"{stem}.npy"),
        path.with_name(f"{stem}.tokenizer_state.json"),
        compression,
        found.size,
        found.mtime_ns,
    )


def _tokenizer(tokenizer: str | Tokenizer, texts: list[Text]) -> Tokenizer:
    if not isinstance(tokenizer, str):
        return tokenizer
    if tokenizer != "chars":
        return load(tokenizer)
    characters: set[str] = set()
    for text in texts:
        with text.open() as stream:
            try:
                characters |= chars_of(blocks_of_characters(stream))
            except BadInputError as error:
                raise BadInputError(
                    f"{text.path} is not UTF-8", hint=error.hint, source=str(text.path)
                ) from None
    return CharsTokenizer.build(characters)


def _dtype(name: str | None, tokenizer: Tokenizer) -> np.dtype[Any]:
    name = dtype_for(tokenizer.vocab_size) if name is None else name
    if name not in DTYPES:
        raise ValueError(f"dtype {name!r} is not one of {', '.join(DTYPES)}")
    dtype = np.dtype(name)
    if tokenizer.vocab_size - 1 > np.iinfo(dtype).max:
        raise ValueError(
            f"the ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit "
            f"into {name}; use uint32"
        )
    return dtype


def _kept(
    text: Text, tokenizer: Tokenizer, dtype: np.dtype[Any], separator: str
) -> Pretokenized | None:
    """The array that is there, if it is newer than the text; it must be what was asked for."""
    try:
        found = os.stat(text.npy)
    except FileNotFoundError:
        return None
    if found.st_mtime_ns < text.mtime_ns:
        return None
    try:
        ids = np.load(text.npy, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise MismatchError(
            f"{text.npy} is newer than {text.path}, but it is not a .npy of ids: {error}",
            hint="--force writes it anew",
        ) from None
    if ids.dtype != dtype or ids.ndim != 1:
        raise MismatchError(
            f"{text.npy} is newer than {text.path}, but holds {ids.dtype.name} {ids.shape}, "
            f"not {dtype.name}",
            hint=f"--force writes it anew; --dtype {ids.dtype.name} keeps it",
        )
    _check_made_so(text, tokenizer, separator)
    return Pretokenized(
        text=str(text.path),
        npy=str(text.npy),
        tokenizer=tokenizer.name,
        dtype=dtype.name,
        tokens=len(ids),
        documents=0,
        characters=None,
        bytes=found.st_size,
        kept=True,
    )


def _check_made_so(text: Text, tokenizer: Tokenizer, separator: str) -> None:
    """Raise unless the state beside the array says that it was made as it is wanted now."""
    made = _made_with(text)
    if made is None:
        raise MismatchError(
            f"{text.npy} is newer than {text.path}, but {text.state} does not say how it was made",
            hint="--force writes it anew",
        )
    if made["fingerprint"] != tokenizer.fingerprint:
        raise TokenizerMismatchError(
            f"{text.npy} is newer than {text.path}, but was made with another tokenizer "
            f"(fingerprint {made['fingerprint']}; {tokenizer.name} has {tokenizer.fingerprint})",
            hint="--force writes it anew",
        )
    if made["separator"] != separator:
        raise MismatchError(
            f"{text.npy} is newer than {text.path}, but was made with separator "
            f"{made['separator']!r}, not {separator!r}",
            hint="--force writes it anew",
        )


def _made_with(text: Text) -> dict[str, str] | None:
    """What the ids of the array depend on, besides the text; None where that is not known."""
    try:
        state = orjson.loads(text.state.read_bytes())
        return {name: str(state[name]) for name in ("fingerprint", "separator")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store_state(text: Text, tokenizer: Tokenizer, separator: str) -> None:
    """Put the tokenizer beside the array; an old array that was made otherwise goes first."""
    if _made_with(text) != {"fingerprint": tokenizer.fingerprint, "separator": separator}:
        text.npy.unlink(missing_ok=True)
    state = {**tokenizer.state(), "separator": separator}
    data = orjson.dumps(state, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_atomically(text.state, data)


def _check_unchanged(text: Text) -> None:
    if open_input.stat(str(text.path)) != (text.size, text.mtime_ns):
        raise PrepareError(
            f"{text.path} changed while it was read",
            hint="let whatever writes to it finish, then give the command again",
            source=str(text.path),
        )
