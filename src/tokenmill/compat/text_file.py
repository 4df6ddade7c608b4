"""A text file as tokens: the `.npy` beside it when there is one, else tokenized in memory.

`corpus.npy` is what `tokenmill pretokenize corpus.txt` writes; it is memory-mapped and costs no
memory. Without it the whole text is read and encoded, which takes some 6 bytes of memory per byte
of text, and a warning says so. The first 90 % of the tokens are for training.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.base.hashing import is_made_from
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, MismatchError, TokenizerMismatchError
from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.bytes_and_chars import CharsTokenizer
from tokenmill.tokens.tokenizer import Tokenizer, count_literals, note_if_slow, note_on_literals

Say = Callable[[str], object]
LEARNED = "bpe:"
"""Begins the name of a tokenizer that is learned from the text: bpe:2048 has 2,048 ids."""


def open_text(
    path: str | Path,
    splits: Sequence[str],
    *,
    tokenizer: Any = None,
    say: Say = print,
    warn: Say,
) -> list[TokenDataset]:
    """Splits of one text, tokenized once if it must be; `say` gets where its tokens came from.

    Without a `tokenizer` it is the one that `pretokenize` left beside the `.npy`, else gpt2.
    """
    path, npy = Path(path), Path(path).with_suffix(".npy")
    if npy.exists():
        if path.exists() and not is_made_from(npy, path):
            raise MismatchError(
                f"{npy} was made from another text than {path} holds now",
                hint=f"`tokenmill pretokenize {path}`, or name {npy} itself to use it as it is",
            )
        say(f"Using memory-mapped file: {npy}")
        say("   (This uses ~0MB RAM regardless of dataset size!)")
        whole = dataset.open(npy, tokenizer=tokenizer)
        say(f"   Total tokens in file: {whole.num_tokens:,}")
        known = whole.tokenizer or load_tokenizer.load("gpt2")
        if path != npy and path.exists() and whole.tokenizer is None:
            _check_first_words(whole, known, path)
        end = known.end_of_text_id
        opened = [dataset.open(npy, split, tokenizer=known, end_of_text=end) for split in splits]
        for data in opened:
            first = data.files[0].first
            size = data.num_tokens
            where = f"indices {first:,} to {first + size:,}"
            say(f"   Using {data.split} portion: {size:,} tokens ({where})")
        return opened
    if not path.exists():
        raise FileNotFoundError(f"no file {path} (looked in {Path.cwd()})")
    warn(
        f"No .npy file found for {path}: tokenizing {path.stat().st_size:,} bytes in memory; "
        f"`tokenmill pretokenize {path}` does it once and for all"
    )
    text = path.read_bytes()
    known = _tokenizer_of(text, tokenizer or "gpt2")
    for note in note_if_slow(known):
        warn(note)
    ids = encode_text(text, known, name=str(path), warn=warn)
    parts = [split_array(ids, split) for split in splits]
    counts = [f"{split} {len(part):,}" for split, part in zip(splits, parts, strict=True)]
    say(f"   Tokenized {path} with {known.name}; tokens: {', '.join(counts)}")
    # Ids that were learned from the text itself never hold the one that ends a text.
    end = None if known.name.startswith(LEARNED) else known.end_of_text_id
    about: dict[str, Any] = {"end_of_text": end, "vocab_size": known.vocab_size}
    return [dataset.from_array(part, tokenizer=known, **about) for part in parts]


def _tokenizer_of(text: bytes, tokenizer: Any) -> Tokenizer:
    if isinstance(tokenizer, str) and tokenizer == "chars":
        return CharsTokenizer.learn([text])
    if str(tokenizer).startswith(LEARNED):
        from tokenmill.tokens.learn_bpe import learn_bpe

        return learn_bpe(text, str(tokenizer))
    return load_tokenizer.load(tokenizer)


def _check_first_words(data: TokenDataset, tokenizer: Tokenizer, path: Path) -> None:
    """Refuse ids that are not those of the beginning of the text, apart from case and marks."""
    with path.open("rb") as file:
        begins = _letters(file.read(4096))
    try:
        read = _letters(tokenizer.decode(data.tokens(0, min(64, data.num_tokens))))
    except ValueError:
        read = "ids that it does not have"
    if not begins.startswith(read[: len(begins)]):
        raise TokenizerMismatchError(
            f"{data.path} does not name its tokenizer, and its ids are not those of {path} by "
            f"{tokenizer.name}: they begin with {read[:30]!r}, the text with {begins[:30]!r}",
            hint="name the tokenizer that made them, tokenizer=; or make them again: "
            f"`tokenmill pretokenize {path} --force`",
        )


def _letters(text: bytes) -> str:
    return re.sub(r"\W|endoftext", "", text.decode(errors="ignore")).casefold()


def encode_text(
    text: str | bytes, tokenizer: Tokenizer, *, name: str = "the text", warn: Say = warnings.warn
) -> np.ndarray:
    """The ids of one text as `pretokenize` writes them: no end-of-text id follows the last."""
    data = text.encode() if isinstance(text, str) else text
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{name} is not UTF-8 at byte {error.start:,}",
            hint=f"`tokenmill prepare {name} -o DIR --on_bad_input replace` can read it",
        ) from None
    for note in note_on_literals(count_literals(tokenizer, [data])):
        warn(f"{name}: {note}")
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    return np.asarray(tokenizer.encode_batch([data])[0], dtype)


def split_array(ids: np.ndarray, split: str) -> np.ndarray:
    """The first 90 % for `train`, the rest for `val`; the rule of `tokenmill.open` for one file."""
    kept = len(ids) * 9 // 10
    return {"train": ids[:kept], "val": ids[kept:]}[split]
