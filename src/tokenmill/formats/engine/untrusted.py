"""Careful looks at files that others wrote: first bytes, sizes, JSON, names inside an index.

Nothing here trusts a claim: sizes come from the file system, JSON is read up to a cap, and a name
from an index is used only when it stays inside the dataset.
"""

import mmap
import os
import shlex
import stat
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokenmill.base.hashing import regular
from tokenmill.base.strict_json import Reader, check_name, parse_object
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    NotADatasetError,
    TruncatedShardError,
    UnsupportedVersionError,
)
from tokenmill.formats.engine.mirror import HEAD_BYTES, open_whole
from tokenmill.reading.token_file import Lazy
from tokenmill.shards.manifest import FILE_NAME

JSON_CAP = 64 << 20
LEAST_TOKENS = 256  # with fewer, nothing is said of their type
MIXED = "tokens and index are of different builds, or one was cut; fetch or write both again"

LLMC_MAGICS = (20240520, 20240801, 20240522, 20240527)
SWAPPED = (
    "a file of llm.c with its bytes in reverse order (big-endian)",
    "write it again with little-endian header and tokens: array.astype('<u2').tofile(...)",
)


def _swapped(magic: int) -> tuple[bytes, bytes]:
    """The magic number as a big-endian machine writes it, and with the bytes of each half swapped.

    >>> _swapped(0x04030201)
    (b'\\x04\\x03\\x02\\x01', b'\\x02\\x01\\x04\\x03')
    """
    big = magic.to_bytes(4, "big")
    return big, big[2:] + big[:2]


# first bytes -> the format that reads it; or what else it is, and what to do with it
MAGICS = {
    (20240520).to_bytes(4, "little"): ("llmc", None),
    (20240801).to_bytes(4, "little"): ("llmc", None),
    b"\x93NUMPY": ("npy", None),
    b"MMIDIDX\x00\x00": ("megatron", None),
    b"LITPKDS": ("litpkds", None),
    (20240522).to_bytes(4, "little"): (
        "an evaluation file of llm.c (HellaSwag, MMLU), not training tokens",
        "pass the training shards only, by name or glob",
    ),
    (20240527).to_bytes(4, "little"): (
        "a training state of llm.c, not tokens",
        "pass the training shards only, by name or glob",
    ),
    b"TNTIDX\x00\x00": (
        "a fairseq index (TNTIDX), the predecessor of Megatron's",
        "write it again with a current preprocess_data.py (--dataset-impl mmap), then open that",
    ),
    **{swapped: SWAPPED for magic in LLMC_MAGICS for swapped in _swapped(magic)},
    b"PK\x03\x04": ("a zip or .npz archive", "unpack it, then open the .npy inside"),
    b"PAR1": ("a parquet file", "if it holds text: tokenmill prepare FILE -o OUTPUT"),
    b"\x1f\x8b\x08": (
        "gzip compressed",
        "if it holds text: tokenmill prepare FILE -o OUTPUT; if tokens, unpack them: gzip -dk FILE",
    ),
    b"\x28\xb5\x2f\xfd": (
        "zstd compressed",
        "if it holds text: tokenmill prepare FILE -o OUTPUT; if tokens, unpack them: zstd -dk FILE",
    ),
    b"ARROW1": (
        "an Arrow file",
        "if it holds text, write it as parquet or JSON lines; `tokenmill prepare` reads those",
    ),
}


def head(path: Path, length: int = 1024) -> tuple[bytes, int]:
    """The first bytes of a file, and its size."""
    try:
        with _open(path, is_enough=length <= HEAD_BYTES) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), min(length, size), 0), size
    except FileNotFoundError:
        raise missing(path) from None
    except IsADirectoryError:
        raise FormatError(
            f"{path} is a folder in the place of a file", hint="open the folder by itself"
        ) from None


def _open(path: Path, *, is_enough: bool) -> BinaryIO:
    """A regular file; in a mirror, the first bytes of it if these are enough, else all."""
    return open(path, "rb", buffering=0, opener=regular) if is_enough else open_whole(path)


def known_head(first_bytes: bytes) -> str | None:
    """What these first bytes announce, or None; only what raw tokens would not show by chance."""
    for magic, (what, _) in MAGICS.items():
        if len(magic) >= 4 and first_bytes.startswith(magic):
            return what
    return None


def known_other(path: Path, first_bytes: bytes) -> FormatError | None:
    """The error for a file that is known to hold something else than tokens."""
    for magic, (what, remedy) in MAGICS.items():
        if remedy is not None and first_bytes.startswith(magic):
            return FormatError(
                f"{path} is {what}", hint=remedy.replace("FILE", shlex.quote(str(path)))
            )
    return None


def dataset_above(path: Path) -> Path | None:
    """The dataset of ours that a file is part of: in its folder, or in that of a split."""
    for folder in (path.parent, path.parent.parent):
        if (folder / FILE_NAME).is_file():
            return folder
    return None


def map_file(
    path: Path, *, least: int, why: str, only_least: bool = False, unpacked: Lazy | None = None
) -> mmap.mmap:
    """A read-only map of a file that must have at least so many bytes; perhaps only these count.

    `unpacked` opens the content of one that is compressed.
    """
    is_enough = only_least and least <= HEAD_BYTES
    with unpacked() if unpacked else _open(path, is_enough=is_enough) as file:
        expect_at_least(path, os.fstat(file.fileno()).st_size, least, why)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def map_samples(
    path: Path, count: int, *, only_table: bool = False, unpacked: Lazy | None = None
) -> tuple[mmap.mmap, np.ndarray]:
    """A shard of samples (of MDS, litdata), and where each begins and the last ends, in bytes.

    It begins with u32 number of samples, then this table of u32.
    """
    why = f"its index ({count:,} samples)"
    least = 8 + 4 * count
    mapped = map_file(path, least=least, why=why, only_least=only_table, unpacked=unpacked)
    found = int.from_bytes(mapped[:4], "little")
    if found != count:
        raise mixed(path, f"says that it has {found:,} samples; the index says {count:,}")
    return mapped, np.frombuffer(mapped, "<u4", count + 1, 4)


def ends_file(path: Path | str, count: int) -> Lazy:
    """Where documents end: `count` uint64 in a file, mapped when they are first needed."""
    return Lazy(map_ends, (str(path), count), count, str(path))


def map_ends(path: str, count: int) -> np.ndarray:
    """A read-only view; as int64, since no position comes near 2^63."""
    if count == 0:
        return np.empty(0, np.int64)
    why = "the dataset as it was opened"
    mapped = map_file(Path(path), least=8 * count, why=why)
    expect_size(Path(path), len(mapped), 8 * count, why)
    return np.frombuffer(mapped, "<i8", count=count)


def read_whole(path: Path, *, cap: int = JSON_CAP) -> bytes:
    """A small file beside the tokens; one larger than the cap is refused unread."""
    data, size = head(path, cap)
    if size > cap:
        raise FormatError(
            f"{path} is {size:,} bytes; such a file has at most {cap:,}",
            hint="this is not the index of a token dataset",
        )
    return data


def read_json(path: Path) -> Reader:
    """A JSON object whose fields are asked for by name and type."""
    return Reader(parse_object(read_whole(path), str(path)), str(path))


class Root:
    """The folder of a dataset, and the files that its index names in it.

    A name is used only when it stays inside: plain, relative, and no link that leads out.
    """

    def __init__(self, folder: Path, index: Path) -> None:
        self.folder = folder
        self.index = index
        self._real = os.path.realpath(folder)
        self._inside = {""}

    def file(self, name: object) -> tuple[Path, int | None]:
        """The path of a named file, and its size; None when it is not there."""
        path, size = self._look_at(check_name(name, str(self.index)))
        return Path(path), size

    def _look_at(self, name: str) -> tuple[str, int | None]:
        path, parent = f"{self.folder}/{name}", name.rpartition("/")[0]
        if parent not in self._inside:
            self._check(name, f"{self.folder}/{parent}")
            self._inside.add(parent)
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                self._check(name, path)
                about = os.stat(path)
        except FileNotFoundError:
            return path, None
        return path, about.st_size

    def sized(self, name: object, expected: int) -> Path:
        """The path of a named file that must be there and have this size."""
        return Path(self.sized_name(name, expected))

    def sized_name(self, name: object, expected: int) -> str:
        """The same as a string, which is made in a tenth of the time."""
        path, size = self._look_at(check_name(name, str(self.index)))
        if size is None:
            raise missing(Path(path), self.index)
        if size != expected:
            expect_size(Path(path), size, expected, self.index.name)
        return path

    def check_listed(self, folder: str, names: list[str]) -> None:
        """Refuse if one of these is not in a folder: by one listing, without a look at each."""
        path = f"{self.folder}/{folder}"
        self._check(folder, path)
        there = set(os.listdir(path)) if os.path.isdir(path) else set()
        if not there.issuperset(names):
            gone = next(name for name in names if name not in there)
            raise missing(Path(path, gone), self.index)

    def _check(self, name: object, path: str) -> None:
        # A link may point elsewhere inside the dataset, not out of it.
        real = os.path.realpath(path)
        if os.path.commonpath([self._real, real]) != self._real:
            raise FormatError(
                f"{self.index} names the file {name!r}, which is a link out of {self.folder}",
                hint="do not use this dataset: a link like this makes a program read other files",
            )


def file_size(path: Path, named_by: Path | None = None) -> int:
    """The size of a regular file that must be there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        raise missing(path, named_by) from None


def missing(path: Path, named_by: Path | None = None) -> NotADatasetError:
    """The error for a file that is not there."""
    by = f", which {named_by} names" if named_by else ""
    return NotADatasetError(
        f"there is no file {path}{by}", hint="fetch the missing file; nothing can replace it"
    )


def expect_version(path: Path, found: int, known: int) -> None:
    """Other versions of a format are not guessed at."""
    if found != known:
        raise UnsupportedVersionError(
            f"{path} is of version {found:,}; known is {known}",
            hint="the file is damaged, or its format is newer than this tokenmill",
        )


def expect_at_least(path: Path, found: int, least: int, why: str, hint: str | None = None) -> None:
    """A file must hold what it claims to."""
    if found < least:
        raise TruncatedShardError(
            f"{path} is {found:,} bytes; {why} promises {least:,}",
            hint=hint or "the file was cut short, or its header is wrong; fetch this file again",
        )


def expect_size(path: Path, found: int, expected: int, why: str, hint: str | None = None) -> None:
    """A file must be exactly as long as what it claims to hold."""
    expect_at_least(path, found, expected, why, hint)
    if found > expected:
        raise CorruptShardError(
            f"{path} is {found:,} bytes; {why} promises {expected:,}",
            hint=hint or "there are bytes that nothing accounts for; fetch this file again",
        )


def unknown_dtype(path: Path, size: int, why: str, hint: str) -> FormatError:
    """The error for tokens whose type nothing states; `hint` says what to try."""
    if size == 0:
        return FormatError(
            f"{path} is empty: 0 bytes, so that nothing says its token type",
            hint="whatever wrote it was stopped or had nothing to write; write it again or "
            "remove it",
        )
    return FormatError(f"{path} {why}, so its token type is unknown", hint=hint)


def dtype_hint(path: Path, format_name: str | None = None) -> str:
    """Calls that read a headerless file in each width, the one that fits its bytes first.

    `format_name` is given where the name of the file does not say it.
    """
    stated = f'format="{format_name}", ' if format_name else ""
    data, size = head(path, 1 << 20)
    likely = likely_dtype(data)
    why = f"its bytes look like {likely}"
    if likely != "uint16":
        why += " (as uint16, the upper parts of the ids are almost always below 16)"
    elif size < 2 * LEAST_TOKENS:
        why = "it is too short to say which fits; ids that are 0 or huge are of the wrong width"
    for name in dict.fromkeys((likely, "uint16", "uint32")):
        ids = str(np.frombuffer(data[: len(data) & ~7], name)[:6].tolist())
        why += f'\n  tokenmill.open("{path}", {stated}dtype="{name}")  # {ids}'
    return why


def likely_dtype(data: bytes) -> str:
    """uint16 or uint32, for a file that does not say."""
    ids = np.frombuffer(data[: len(data) & ~7], "<u2")
    return f"uint{16 * tokens_of_an_id(ids)}" if len(ids) >= LEAST_TOKENS else "uint16"


def tokens_of_an_id(ids: np.ndarray) -> int:
    """4 or 2 when groups of so many are one id each, else 1."""
    for group in (size for size in (4, 2) if ids.dtype.itemsize * size <= 8):
        columns = ids[: len(ids) // group * group].reshape(-1, group)
        small = (columns < 16).mean(axis=0)
        # The lowest part of each id is the only varied one; a split may begin inside an id.
        if int((small > 0.99).sum()) == group - 1 and small.min() < 0.5:
            return group
    return 1


def damaged(path: Path | str, what: str) -> CorruptShardError:
    """The error for a file that contradicts itself."""
    return CorruptShardError(f"{path} {what}", hint="the file is damaged; fetch or write it again")


def mixed(path: Path | str, what: str) -> CorruptShardError:
    """The error for a file that contradicts the one beside it."""
    return CorruptShardError(f"{path} {what}", hint=MIXED)


def whole_tokens(path: Path, num_bytes: int, itemsize: int, dtype_name: str) -> int:
    """How many tokens a headerless run of bytes holds; a remainder is refused."""
    if num_bytes % itemsize:
        raise TruncatedShardError(
            f"{path} has {num_bytes:,} bytes of tokens, no multiple of {itemsize} ({dtype_name})",
            hint="the file was cut short, or its tokens are of another dtype",
        )
    return num_bytes // itemsize
