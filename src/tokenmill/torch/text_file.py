"""A text file as tokens: the `.npy` beside it when there is one, else tokenized in memory.

`corpus.txt` is looked for as `corpus.npy` (what `tokenmill pretokenize corpus.txt` writes). It is
memory-mapped and costs no memory. Without it the whole text is read and encoded, which takes some
6 bytes of memory a byte of text, and a warning says so. A `.npy` older than its text is refused:
it may hold the tokens of another text. Either way the first 90 % of the tokens are for training,
the rest for validation.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, MismatchError
from tokenmill.tokens import load
from tokenmill.tokens.protocol import Tokenizer


def open_text(
    path: str | Path,
    split: str | None = "train",
    *,
    tokenizer: str | Tokenizer = "gpt2",
    say: Callable[[str], object] = print,
) -> TokenDataset:
    """The tokens of a text file (or of a `.npy`); `say` is told where they came from."""
    path = Path(path)
    tokens_file = path.with_suffix(".npy")
    if not path.exists() and not tokens_file.exists():
        raise FileNotFoundError(f"no file {path} (looked in {Path.cwd()})")
    known = load.load(tokenizer) if isinstance(tokenizer, str) else tokenizer
    if not tokens_file.exists():
        return _in_memory(path, split, known, say)
    if path != tokens_file and path.exists():
        _check_age(path, tokens_file)
    end_of_text = known.end_of_text_id
    data = dataset.open(tokens_file, split, tokenizer=known, end_of_text_id=end_of_text)
    say(f"Using memory-mapped file: {tokens_file}")
    say("   (This uses ~0MB RAM regardless of dataset size!)")
    total, first = dataset.open(tokens_file, None).num_tokens, data.files[0].first
    say(f"   Total tokens in file: {total:,}")
    say(
        f"   Using {split or 'whole'} portion: {data.num_tokens:,} tokens "
        f"(indices {first:,} to {first + data.num_tokens:,})"
    )
    return data


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


def _in_memory(
    path: Path, split: str | None, tokenizer: Tokenizer, say: Callable[[str], object]
) -> TokenDataset:
    warnings.warn(
        f"No .npy file found for {path}: tokenizing {path.stat().st_size:,} bytes in memory; "
        f"`tokenmill pretokenize {path}` does it once and for all",
        stacklevel=3,
    )
    raw = path.read_bytes()
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not UTF-8 at byte {error.start:,}",
            hint="`tokenmill prepare --invalid-utf8 replace` can read it; see its help",
        ) from None
    ids = split_array(encode_text(raw, tokenizer), split)
    data = dataset.from_array(
        ids, tokenizer=tokenizer, vocab_size=tokenizer.vocab_size,
        end_of_text_id=tokenizer.end_of_text_id,
    )  # fmt: skip
    say(f"   Tokenized {path} with {tokenizer.name}; {split or 'all'}: {len(ids):,} tokens")
    return data


def _check_age(text: Path, tokens: Path) -> None:
    if tokens.stat().st_mtime_ns < text.stat().st_mtime_ns:
        raise MismatchError(
            f"{tokens} is older than {text}: its tokens may be those of another text",
            hint=f"tokenize again with `tokenmill pretokenize {text}`, or name {tokens} itself to "
            "use it as it is",
        )
