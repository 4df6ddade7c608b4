"""From a path, a list or a glob to shards: which format it is, and which files.

A folder is asked first for the index of a format (ours, MDS, litdata), then for a folder of the
split, then for token files. A file is recognized by its first bytes, then by its name and by what
is beside it. All files of a dataset are of one format; a file that is not is an error, not skipped.
"""

import codecs
import glob as globbing
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tokenmill.base.address import check_address
from tokenmill.base.address import join as address_of
from tokenmill.base.human import plural
from tokenmill.base.suggest import AS_HINT, closest, did_you_mean
from tokenmill.errors import FormatError, MismatchError, NotADatasetError
from tokenmill.formats.datatrove import Datatrove
from tokenmill.formats.dolma import Dolma
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.format import Ask, FileFormat, FolderFormat, FoundData, TokenFormat
from tokenmill.formats.engine.held_out import ALL, SPLITS, folder_of, in_split, is_named, take
from tokenmill.formats.engine.mirror import make_mirror
from tokenmill.formats.litdata import Litdata
from tokenmill.formats.litpkds import Litpkds
from tokenmill.formats.llmc import Llmc
from tokenmill.formats.mds import Mds
from tokenmill.formats.megatron import Megatron
from tokenmill.formats.modalities import Modalities
from tokenmill.formats.nanogpt import Nanogpt
from tokenmill.formats.npy import Npy
from tokenmill.formats.ours import Ours, read_bucket
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.token_file import TokenFile
from tokenmill.shards.manifest import FILE_NAME

# In the order of asking: what has a magic number first, what only a name says last.
_FILES = (Llmc, Npy, Litpkds, Megatron, Datatrove, Modalities, Dolma, Nanogpt)
FILE_FORMATS: dict[str, FileFormat] = {format.name: format() for format in _FILES}
FOLDER_FORMATS: dict[str, FolderFormat] = {x.name: x() for x in (Ours, Mds, Litdata)}
FORMATS: dict[str, TokenFormat] = {**FOLDER_FORMATS, **FILE_FORMATS}
TOKEN_SUFFIXES = tuple({suffix for format in _FILES for suffix in format.suffixes})

INDEXES = {FILE_NAME: "tokenmill", "index.json": "MDS or litdata"}
TEXT_SUFFIXES = {".txt", ".md", ".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst", ".xz", ".bz2"}

Where = str | os.PathLike[str]


def writable_formats() -> list[str]:
    """The names of the formats that `convert` writes."""
    return [name for name, format in FORMATS.items() if format.writer is not None]


def format_to_write(name: str) -> TokenFormat:
    """The format of this name; one that is unknown or only read is refused."""
    name = Ours.name if name == "ours" else name
    if name not in writable_formats():
        raise ValueError(_unknown("format to write", name, writable_formats()))
    return FORMATS[name]


def detect(
    where: Where | Sequence[Where], split: str | None, *, format: str | None, ask: Ask
) -> FoundData:
    """The shards of a split; at least one token."""
    if format is not None and format not in FORMATS:
        raise ValueError(_unknown("format", format, list(FORMATS)))
    items = [where] if isinstance(where, (str, os.PathLike)) else where
    paths = [path for item in items for path in _expand(item)]
    if not paths:
        raise ValueError("the list of token files is empty")
    if items is where:
        found = _of_files(paths, split, format, ask, f"the list of {len(paths)} files")
    elif paths[0].is_dir():
        found = _of_folder(paths[0], split, format, ask)
    else:
        found = _of_files(paths, split, format, ask, str(where))
    if not found.files.numbers("num_tokens").any():
        names = ", ".join(file.path or file.name for file in found.files[:3])
        raise FormatError(
            f"there are no tokens in {names}" + (f" for split {split!r}" if split else ""),
            hint="the files are empty: whatever wrote them was stopped or had nothing to write",
        )
    return found


def detect_remote(
    addresses: Sequence[str],
    split: str | None,
    *,
    format: str | None,
    ask: Ask,
    cache: ShardCache,
) -> FoundData:
    """The same for addresses: a dataset of ours by its manifest, others through a mirror."""
    if len(addresses) == 1 and format in (None, Ours.name):
        found = read_bucket(addresses[0], split, ask, cache)
        if found is not None:
            return found
        if format is not None:
            raise NotADatasetError(f"there is no {address_of(addresses[0], FILE_NAME)}")
    paths = [path for item in addresses for path in _expand_address(item)]
    mirror, ask = make_mirror(paths, cache), replace(ask, cache=cache)
    with mirror.errors_with_addresses():
        local = [mirror.path(path) for path in paths]
        is_one = len(addresses) == 1 == len(local)
        found = detect(local[0] if is_one else local, split, format=format, ask=ask)
    return found.with_files(mirror.with_addresses(found.files))


def _expand_address(address: str) -> list[str]:
    """One address, or what a glob matches."""
    address = check_address(address)
    if not globbing.has_magic(address):
        return [address]
    from tokenmill.stores.globs import match

    if not (found := match(address)):
        raise NotADatasetError(f"no object matches {address!r}")
    return found


def _unknown(what: str, name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known, AS_HINT)
    return f"unknown {what} {name!r}; known are: {', '.join(sorted(known))}{hint}"


def _expand(where: Where) -> list[Path]:
    """One path, or what a glob matches in byte order of the names."""
    path = Path(where)
    if path.exists():
        return [path]
    text = os.fspath(where)
    if Path(text + ".idx").is_file():  # Megatron's users name the pair without its suffix
        return [Path(text + ".bin")]
    if globbing.has_magic(text):
        names = sorted(globbing.glob(text, recursive=True), key=os.fsencode)  # noqa: PTH207
        files = [Path(name) for name in names if not Path(name).is_dir()]
        if not names:
            raise NotADatasetError(f"no file matches {text!r} (looked in {Path.cwd()})")
        if not files and len(names) > 1:
            raise NotADatasetError(
                f"{text!r} matches {len(names)} folders and no file",
                hint=f'open one of them, or the files in them: tokenmill.open("{text}/*")',
            )
        return files or [Path(names[0])]
    names = os.listdir(path.parent) if path.parent.is_dir() else []
    near = closest(path.name, sorted(names))
    raise NotADatasetError(
        f"there is no file or folder {text!r} (looked in {Path.cwd()})",
        hint=f"did you mean {path.parent / near}?" if near else None,
    )


def _of_folder(folder: Path, split: str | None, name: str | None, ask: Ask) -> FoundData:
    for format in FOLDER_FORMATS.values():
        if name in (None, format.name) and format.claims_folder(folder):
            return format.read_folder(folder, split, ask)
    folders = {split: path for split in SPLITS if (path := folder_of(folder, split))}
    if {"train", "val"} & set(folders):
        folders |= {path.name: path for path in sorted(folder.glob("val_*")) if is_named(path.name)}
        return _of_split_folders(folder, folders, split, name, ask)
    entries = sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name))
    # Without hidden files and folders: those are temporary, or of something else.
    paths = [
        entry
        for entry in entries
        if entry.suffix in TOKEN_SUFFIXES
        and not entry.name.startswith((".", "_tmp"))
        and not entry.is_dir()
    ]
    _check_that_nothing_is_missing(entries, {path.name for path in paths})
    if not paths:
        raise _nothing_in(folder)
    return _of_files(paths, split, name, ask, str(folder))


def _check_that_nothing_is_missing(entries: list[Path], token_files: set[str]) -> None:
    """An index without its tokens is the trace of a lost file."""
    for index in entries:
        for format in FILE_FORMATS.values():
            tokens = format.tokens_of(index, token_files)
            if tokens is not None and tokens.name not in token_files:
                raise untrusted.missing(tokens, index)


def _of_split_folders(
    folder: Path, here: dict[str, Path], split: str | None, format: str | None, ask: Ask
) -> FoundData:
    """`train/` and `val/`: each is a whole split. With train/ alone, its end is held out."""
    everything = split == ALL or (split is None and len(here) == 1)
    wanted = split or "train"
    inner = ALL
    if not everything and list(here) == ["train"] and wanted in ("train", "val"):
        inner, wanted = wanted, "train"
    if not everything and wanted not in here:
        raise FormatError(
            f"{folder} has no {wanted} split; it has the folders {', '.join(here)}",
            hint=f'open split="{next(iter(here))}", or split="all" for everything',
        )
    parts = []
    for path in here.values() if everything else [here[wanted]]:
        found = _of_folder(path, inner, format, ask)
        named = [replace(file, name=f"{path.name}/{file.name}") for file in found.files]
        parts.append(found.with_files(named))
    whole = join(parts, str(folder))
    if split is None and not everything:
        return whole.with_files(in_split(whole.files, "train"))
    return whole


def _of_files(
    paths: list[Path], split: str | None, name: str | None, ask: Ask, where: str
) -> FoundData:
    format = FILE_FORMATS.get(name or "") or _sniff(paths[0], name)
    found = join([format.read(path, ask) for path in paths], where)
    files: Sequence[TokenFile] = found.files
    if len({path.parent for path in paths}) > 1:
        root = Path(os.path.commonpath([path.parent for path in paths]))
        names = [path.relative_to(root).as_posix() for path in paths]
        files = [replace(file, name=name) for file, name in zip(files, names, strict=True)]
    return found.with_files(take(files, split, where))


def _sniff(path: Path, name: str | None) -> FileFormat:
    """The format of a file by its first bytes, or by its name."""
    if path.is_dir():
        raise FormatError(f"{path} is a folder in a list of files; open it by itself")
    if name in FOLDER_FORMATS:
        raise FormatError(f"{path} is a file, but the format {name} is a folder with an index")
    first_bytes, _ = untrusted.head(path)
    for format in FILE_FORMATS.values():
        if format.claims(path, first_bytes):
            return format
    raise untrusted.known_other(path, first_bytes) or _not_tokens(path, first_bytes)


def join(parts: list[FoundData], where: str) -> FoundData:
    """Many files of one format as one dataset; files of different types are refused."""
    first = parts[0]
    for other in parts[1:]:
        if (other.format, other.files[0].dtype) != (first.format, first.files[0].dtype):
            mixed = [
                f"{part.format} {part.files[0].dtype.name} ({part.files[0].path})"
                for part in (first, other)
            ]
            raise MismatchError(
                f"{where} mixes {' and '.join(mixed)}",
                hint="convert one: tokenmill convert SRC DST --to tokenmill --to_dtype uint32",
            )
    return first.with_files([file for found in parts for file in found.files])


def _not_tokens(path: Path, first_bytes: bytes) -> FormatError:
    """The error for a file that no format claims: what it is, and the call or command to use."""
    if path.name in INDEXES:
        return FormatError(
            f"{path} is the index of a dataset ({INDEXES[path.name]}), not tokens",
            hint=f'open its folder: tokenmill.open("{path.parent}")',
        )
    if (owner := untrusted.dataset_above(path)) is not None:
        return FormatError(
            f"{path} holds no tokens; it is a file in the folder of the dataset {owner}",
            hint=f'open the dataset: tokenmill.open("{owner}")',
        )
    if _is_text(first_bytes):
        return FormatError(
            f"{path} is text, not tokens",
            hint=f"prepare it first: tokenmill prepare {shlex.quote(str(path))} -o OUTPUT",
        )
    return FormatError(
        f"{path} is of no format that can be recognized by its bytes or its name",
        hint=f'if it holds token ids and nothing else: tokenmill.open("{path}", format="nanogpt", '
        'dtype="uint16")',
    )


def _nothing_in(folder: Path) -> NotADatasetError:
    """The error for a folder without token files."""
    entries = list(folder.iterdir())
    kinds = ("folder" if entry.is_dir() else f"{entry.suffix} file".lstrip() for entry in entries)
    counts = Counter(kinds)
    holds = ", ".join(plural(count, kind) for kind, count in sorted(counts.items())) or "nothing"
    command = f"tokenmill prepare {shlex.quote(str(folder))} -o OUTPUT"
    is_text = any(entry.suffix in TEXT_SUFFIXES for entry in entries)
    hint = f"to tokenize text: {command}" if is_text else None
    inside = (entry for entry in entries if any((entry / x).is_file() for x in INDEXES))
    if dataset := min(inside, default=None):
        hint = f'name one of the datasets in it: tokenmill.open("{dataset}")'
    return NotADatasetError(f"{folder} holds no token files; it holds {holds}", hint=hint)


def _is_text(first_bytes: bytes) -> bool:
    """Whether this begins as UTF-8 without control characters, which ids hardly ever do."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(first_bytes)
    except UnicodeDecodeError:
        return False
    return bool(text) and not any(c < " " and c not in "\t\n\r\f" for c in text)
