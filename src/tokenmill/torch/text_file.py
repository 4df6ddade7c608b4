"""A text file as tokens: the `.npy` beside it when there is one, else tokenized in memory.

`corpus.txt` is looked for as `corpus.npy` (what `tokenmill pretokenize corpus.txt` writes). It is
memory-mapped and costs no memory. Without it the whole text is read and encoded, which takes some
6 bytes of memory a byte of text, and a warning says so. A `.npy` older than its text is refused:
it may hold the tokens of another text. Either way the first 90 % of the tokens are for training,
the rest for validation.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, MismatchError
from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.tokenizer import Tokenizer

Say = Callable[[str], object]


def open_text(
    path: str | Path,
    split: str | None = "train",
    *,
    tokenizer: str | Tokenizer = "gpt2",
    say: Say = print,
) -> TokenDataset:
    """One split of a text file (or of a `.npy`); `say` is told where its tokens came from."""
    return open_splits(path, [split], tokenizer=tokenizer, say=say, warn=_warn)[0]


def open_splits(
    path: str | Path,
    splits: Sequence[str | None],
    *,
    tokenizer: str | Tokenizer = "gpt2",
    say: Say = print,
    warn: Say,
) -> list[TokenDataset]:
    """Several splits of one text, which is tokenized once if it must be."""
    path = Path(path)
    tokens_file = path.with_suffix(".npy")
    known = load_tokenizer.load(tokenizer) if isinstance(tokenizer, str) else tokenizer
    if tokens_file.exists():
        if path != tokens_file and path.exists():
            _check_age(path, tokens_file)
        return _mapped(tokens_file, splits, known, say)
    if not path.exists():
        raise FileNotFoundError(f"no file {path} (looked in {Path.cwd()})")
    warn(
        f"No .npy file found for {path}: tokenizing {path.stat().st_size:,} bytes in memory; "
        f"`tokenmill pretokenize {path}` does it once and for all"
    )
    return _in_memory(path, splits, known, say)


def encode_text(text: str | bytes, tokenizer: Any) -> np.ndarray:
    """The ids of one text, closed by the end-of-text id, in the narrowest dtype that fits."""
    raw = text.encode() if isinstance(text, str) else text
    ids, _ = tokenizer.encode_batch([raw])
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    return np.append(ids, tokenizer.end_of_text_id).astype(dtype)


def split_array(ids: np.ndarray, split: str | None) -> np.ndarray:
    """The first 90 % for `train`, the rest for `val`; the rule of `tokenmill.open` for one file."""
    kept = len(ids) * 9 // 10
    return {"train": ids[:kept], "val": ids[kept:], None: ids}[split]


def _mapped(
    path: Path, splits: Sequence[str | None], tokenizer: Tokenizer, say: Say
) -> list[TokenDataset]:
    say(f"Using memory-mapped file: {path}")
    say("   (This uses ~0MB RAM regardless of dataset size!)")
    say(f"   Total tokens in file: {dataset.open(path, None).num_tokens:,}")
    opened = []
    for split in splits:
        data = dataset.open(
            path, split, tokenizer=tokenizer, end_of_text_id=tokenizer.end_of_text_id
        )
        first = data.files[0].first
        say(
            f"   Using {split or 'whole'} portion: {data.num_tokens:,} tokens "
            f"(indices {first:,} to {first + data.num_tokens:,})"
        )
        opened.append(data)
    return opened


def _in_memory(
    path: Path, splits: Sequence[str | None], tokenizer: Tokenizer, say: Say
) -> list[TokenDataset]:
    raw = path.read_bytes()
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not UTF-8 at byte {error.start:,}",
            hint=f"`tokenmill prepare {path} -o DIR --on-bad-input replace` can read it",
        ) from None
    ids = encode_text(raw, tokenizer)
    parts = [(split, split_array(ids, split)) for split in splits]
    counts = ", ".join(f"{split or 'all'} {len(part):,}" for split, part in parts)
    say(f"   Tokenized {path} with {tokenizer.name}; tokens: {counts}")
    return [
        dataset.from_array(
            part,
            tokenizer=tokenizer,
            vocab_size=tokenizer.vocab_size,
            end_of_text_id=tokenizer.end_of_text_id,
        )
        for _, part in parts
    ]


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _check_age(text: Path, tokens: Path) -> None:
    if tokens.stat().st_mtime_ns < text.stat().st_mtime_ns:
        raise MismatchError(
            f"{tokens} is older than {text}: its tokens may be those of another text",
            hint=f"tokenize again with `tokenmill pretokenize {text}`, or name {tokens} itself to "
            "use it as it is",
        )
