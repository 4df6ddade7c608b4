"""Files that are not what they are opened as: what their first bytes say, and what to do then.

Imported when something is refused or examined, never on the way to tokens.
"""

import codecs
import shlex
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from tokenmill.errors import FormatError, NotADatasetError
from tokenmill.formats.format import (
    FILE_SIGNS,
    LLMC_GPT2,
    LLMC_LLAMA3,
    NUMPY,
    SAMPLE_INDEX,
    TOKEN_SUFFIXES,
)
from tokenmill.formats.untrusted import expect_at_least, file_size, head
from tokenmill.shards.manifest import FILE_NAME

LEAST_TOKENS = 256  # with fewer, nothing is said of their type
LARGEST_VOCABULARY = 1 << 20  # ids; the largest in use have a quarter of that
INDEXES = {FILE_NAME: "tokenmill", SAMPLE_INDEX: "MDS or litdata"}
TEXT_SUFFIXES = {".txt", ".md", ".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst", ".xz", ".bz2"}
_TRAINING_ONLY = "pass the training shards only, by name or glob"
_UNPACK = "if it holds text: tokenmill prepare FILE -o OUTPUT; if tokens, unpack them: {} -dk FILE"

# First bytes of files that hold something else: what it is, and what to do with it.
OTHERS = {
    (20240522).to_bytes(4, "little"): (
        "an evaluation file of llm.c (HellaSwag, MMLU), not training tokens",
        _TRAINING_ONLY,
    ),
    (20240527).to_bytes(4, "little"): ("a training state of llm.c, not tokens", _TRAINING_ONLY),
    b"TNTIDX\x00\x00": (
        "a fairseq index (TNTIDX), the predecessor of Megatron's",
        "write it again with a current preprocess_data.py (--dataset-impl mmap), then open that",
    ),
    b"PK\x03\x04": ("a zip or .npz archive", "unpack it, then open the .npy inside"),
    b"PAR1": ("a parquet file", "if it holds text: tokenmill prepare FILE -o OUTPUT"),
    b"\x1f\x8b\x08": ("gzip compressed", _UNPACK.format("gzip")),
    b"\x28\xb5\x2f\xfd": ("zstd compressed", _UNPACK.format("zstd")),
    b"ARROW1": (
        "an Arrow file",
        "if it holds text, write it as parquet or JSON lines; `tokenmill prepare` reads those",
    ),
}
# First bytes that token ids do not show by chance: magic numbers with a version.
HEADER_MARKS = (
    np.array([LLMC_GPT2, 1], "<i4").tobytes(),
    np.array([LLMC_LLAMA3, 7], "<i4").tobytes(),
    NUMPY + b"\x01\x00",
)


def known_head(first_bytes: bytes) -> str | None:
    """Return what these first bytes announce; only what raw tokens would not show by chance."""
    for sign in FILE_SIGNS:
        if first_bytes.startswith(sign.first_bytes):
            return sign.name
    for magic, (what, _) in OTHERS.items():
        if len(magic) >= 4 and first_bytes.startswith(magic):
            return what
    return None


def known_other(path: Path, first_bytes: bytes) -> FormatError | None:
    """Return the error for a file that is known to hold something else than tokens."""
    for magic, (what, remedy) in OTHERS.items():
        if first_bytes.startswith(magic):
            return FormatError(
                f"{path} is {what}", hint=remedy.replace("FILE", shlex.quote(str(path)))
            )
    return None


def read_header(
    path: Path, header: Struct, *magics: bytes, hint: str = ""
) -> tuple[tuple[Any, ...], int]:
    """Return the fields of a header that begins with one of these magics, and the file's size."""
    first_bytes, size = head(path, header.size)
    if magics and not first_bytes.startswith(magics):
        start = first_bytes[: len(magics[0])]
        raise known_other(path, first_bytes) or FormatError(
            f"{path} starts with {start!r}, not with {' or '.join(map(repr, magics))}",
            hint=hint or "the file is damaged, or of another format: leave format out to detect it",
        )
    expect_at_least(path, size, header.size, "the header")
    return header.unpack(first_bytes), size


def dataset_above(path: Path) -> Path | None:
    """Return the tokenmill dataset that a file is part of: in its folder, or in that of a split."""
    for folder in (path.parent, path.parent.parent):
        if (folder / FILE_NAME).is_file():
            return folder
    return None


def unclaimed(path: Path, first_bytes: bytes) -> FormatError:
    """Return the error for a file that no format claims: what it is, and the call to use."""
    if (other := known_other(path, first_bytes)) is not None:
        return other
    what = "is of no format that can be recognized by its bytes or its name"
    hint = "if it holds token ids and nothing else: "
    hint += f'tokenmill.open("{path}", format="nanogpt", dtype="uint16")'
    if path.name in INDEXES:
        what = f"is the index of a dataset ({INDEXES[path.name]}), not tokens"
        hint = f'open its folder: tokenmill.open("{path.parent}")'
    elif owner := dataset_above(path):
        what = f"holds no tokens; it is a file in the folder of the dataset {owner}"
        hint = f'open the dataset: tokenmill.open("{owner}")'
    elif _is_text(first_bytes):
        what = "is text, not tokens"
        hint = f"prepare it first: tokenmill prepare {shlex.quote(str(path))} -o OUTPUT"
    return FormatError(f"{path} {what}", hint=hint)


def nothing_in(folder: Path) -> NotADatasetError:
    """Return the error for a folder without token files."""
    entries = sorted(folder.iterdir())
    hint = None
    if any(entry.suffix in TEXT_SUFFIXES for entry in entries):
        hint = f"to tokenize text: tokenmill prepare {shlex.quote(str(folder))} -o OUTPUT"
    for entry in entries:
        if any((entry / index).is_file() for index in INDEXES):
            hint = f'name one of the datasets in it: tokenmill.open("{entry}")'
    names = ", ".join(entry.name for entry in entries[:5]) or "nothing"
    more = f" and {len(entries) - 5:,} more" if len(entries) > 5 else ""
    return NotADatasetError(f"{folder} holds no token files; it holds {names}{more}", hint=hint)


def unknown_dtype(path: Path, format_name: str, usual: str) -> FormatError:
    """Return the error for tokens whose type nothing states; `usual` says what such files have."""
    size = file_size(path)
    what = "has no header that says it, so its token type is unknown"
    hint = f"{usual}; {dtype_hint(path, format_name)}"
    if size == 0:
        what = "is empty: 0 bytes, so that nothing says its token type"
        hint = "whatever wrote it was stopped or had nothing to write; write it again or remove it"
    elif owner := dataset_above(path):
        split = f', split="{path.parent.name}"' if path.parent != owner else ""
        what = f"is a shard of the dataset {owner}, and has no header of its own"
        hint = f'open the dataset, which knows the type: tokenmill.open("{owner}"{split})'
    elif size % 2:
        hint = f"{size:,} bytes is odd, so only uint8 is possible; or the file was cut short"
    elif path.with_name("meta.pkl").is_file():
        hint += "\nmeta.pkl is a pickle and is never read; sets of characters have one: uint16 too"
    return FormatError(f"{path} {what}", hint=hint)


def dtype_hint(path: Path, format_name: str) -> str:
    """Return calls that read a headerless file in each width, the one that fits its bytes first."""
    data, size = head(path, 1 << 20)
    likely = likely_dtype(data)
    why = f"its bytes look like {likely}"
    if likely != "uint16":
        why += " (as uint16, the upper parts of the ids are almost always below 16)"
    elif size < 2 * LEAST_TOKENS:
        why = "it is too short to say which fits; ids that are 0 or huge are of the wrong width"
    stated = "" if path.suffix in TOKEN_SUFFIXES else f'format="{format_name}", '
    for name in dict.fromkeys((likely, "uint16", "uint32", "int32")):
        ids = str(np.frombuffer(data[: len(data) & ~7], name)[:6].tolist())
        why += f'\n  tokenmill.open("{path}", {stated}dtype="{name}")  # {ids}'
    return why


def likely_dtype(data: bytes) -> str:
    """Return uint16 or uint32, for a file that does not say."""
    ids = np.frombuffer(data[: len(data) & ~7], "<u2")
    return f"uint{16 * tokens_per_id(ids)}"


def wide_dtype(data: bytes) -> str | None:
    """Return int32 or int64 if these bytes are ids only so: as two bytes, most would be zero."""
    ids = np.frombuffer(data[: len(data) & ~7], "<u2")
    if (group := tokens_per_id(ids)) == 1:
        return None
    wide = ids.view(f"<i{2 * group}")
    return wide.dtype.name if wide.min() >= 0 and wide.max() < LARGEST_VOCABULARY else None


def tokens_per_id(ids: np.ndarray) -> int:
    """Return 4 or 2 if that many neighbours are one id each, else 1."""
    widths = [size for size in (4, 2) if ids.dtype.itemsize * size <= 8]
    for group in widths if len(ids) >= LEAST_TOKENS else ():
        columns = ids[: len(ids) // group * group].reshape(-1, group)
        small = (columns < 16).mean(axis=0)
        # The lowest part of each id is the only varied one; a split may begin inside an id.
        if int((small > 0.99).sum()) == group - 1 and small.min() < 0.5:
            return group
    return 1


def _is_text(first_bytes: bytes) -> bool:
    """Return True if this begins as UTF-8 without control characters, which ids hardly ever do."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(first_bytes)
    except UnicodeDecodeError:
        return False
    return bool(text) and not any(c < " " and c not in "\t\n\r\f" for c in text)
