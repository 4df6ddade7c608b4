"""From a path, a list or a glob to shards: which format it is, and which files.

A folder is asked first for the index of a format (ours, MDS, litdata), then for a folder of the
split, then for token files. A file is told by its first bytes, then by its name and what lies
beside it.
All files of a dataset are of one format; a file that is not is an error, not skipped.
"""

import glob as globbing
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np

from tokenmill.base.suggest import AS_HINT, closest, did_you_mean
from tokenmill.errors import FormatError, MismatchError, NotADatasetError
from tokenmill.formats import (
    datatrove,
    dolma,
    litdata,
    litpkds,
    llmc,
    mds,
    megatron,
    modalities,
    nanogpt,
    npy,
    ours,
)
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.formats.engine.held_out import folder_of, take
from tokenmill.formats.engine.not_tokens import not_tokens, nothing_in

# In the order of asking: what has a magic number first, what only a name tells last.
FILE_FORMATS: dict[str, ModuleType] = {
    m.NAME: m for m in (llmc, npy, litpkds, megatron, datatrove, modalities, dolma, nanogpt)
}
FOLDER_FORMATS: dict[str, ModuleType] = {m.NAME: m for m in (ours, mds, litdata)}
TOKEN_SUFFIXES = (".bin", ".npy", ".raw", ".ds", ".pbin")

Where = str | os.PathLike[str]


def detect(
    where: Where | Sequence[Where], split: str | None, *, format: str | None, ask: Ask
) -> Found:
    """The shards of a split; at least one token."""
    check_format(format)
    found = _detect(where, split, format, ask)
    if not any(file.num_tokens for file in found.files):
        names = ", ".join(file.path or file.name for file in found.files[:3])
        raise FormatError(
            f"there are no tokens in {names}" + (f" for split {split!r}" if split else ""),
            hint="the files are empty: whatever wrote them was stopped or had nothing to write",
        )
    return found


def _detect(
    where: Where | Sequence[Where], split: str | None, format: str | None, ask: Ask
) -> Found:
    if not isinstance(where, (str, os.PathLike)):
        paths = [path for item in where for path in _expand(item)]
        if not paths:
            raise ValueError("the list of token files is empty")
        return _of_files(paths, split, format, ask, f"the list of {len(paths)} files")
    paths = _expand(where)
    if len(paths) == 1 and paths[0].is_dir():
        return _of_folder(paths[0], split, format, ask)
    return _of_files(paths, split, format, ask, str(where))


def check_format(format: str | None) -> None:
    """Refuse a format that nobody knows, with the nearest name."""
    known = [*FILE_FORMATS, *FOLDER_FORMATS]
    if format is not None and format not in known:
        raise ValueError(nearest("format", format, known))


def nearest(what: str, name: str, known: list[str]) -> str:
    """The message for a name that nobody knows."""
    hint = did_you_mean(name, known, AS_HINT)
    return f"unknown {what} {name!r}; known are: {', '.join(sorted(known))}{hint}"


def _expand(where: Where) -> list[Path]:
    """One path, or what a glob matches in byte order of the names."""
    path = Path(where)
    if path.exists():
        return [path]
    text = os.fspath(where)
    for prefix_of in (".bin", ".idx"):  # Megatron's users name the pair without its suffix
        if Path(text + prefix_of).is_file() and Path(text + ".idx").is_file():
            return [Path(text + ".bin")]
    if globbing.has_magic(text):
        found = sorted(globbing.glob(text, recursive=True), key=os.fsencode)  # noqa: PTH207
        paths = [Path(name) for name in found if not Path(name).is_dir()]
        if found and not paths and len(found) > 1:
            raise NotADatasetError(
                f"{text!r} matches {len(found)} folders and no file",
                hint=f'open one of them, or the files in them: tokenmill.open("{text}/*")',
            )
        if found:
            return paths or [Path(found[0])]
        raise NotADatasetError(f"no file matches {text!r} (looked in {Path.cwd()})")
    raise NotADatasetError(
        f"there is no file or folder {text!r} (looked in {Path.cwd()})", hint=_nearby(path)
    )


def _nearby(path: Path) -> str | None:
    if not path.parent.is_dir():
        return None
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = closest(path.name, names)
    return f"did you mean {path.parent / near}?" if near else None


def _of_folder(folder: Path, split: str | None, format: str | None, ask: Ask) -> Found:
    for name, module in FOLDER_FORMATS.items():
        if format in (None, name) and module.claims_folder(folder):
            found: Found = module.read_folder(folder, split, ask)
            return found
    folders = {name: folder_of(folder, name) for name in ("train", "val", "test")}
    if folders["train"] or folders["val"]:
        return _of_split_folders(folder, folders, split, format, ask)
    entries = sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name))
    paths = _whole_files([entry for entry in entries if entry.suffix in TOKEN_SUFFIXES])
    _check_that_nothing_is_missing(entries, paths)
    if not paths:
        raise nothing_in(folder)
    return _of_files(paths, split, format, ask, str(folder))


def _check_that_nothing_is_missing(entries: list[Path], paths: list[Path]) -> None:
    """An index without its tokens is the trace of a lost file."""
    here = {path.name for path in paths}
    npy_here = any(path.suffix == ".npy" for path in paths)
    for index in entries:
        tokens = None
        if index.suffix == ".idx":
            tokens = index.with_suffix(".bin")
        elif index.name.endswith((".ds.index", ".ds.metadata")):
            tokens = index.with_suffix("")
        elif index.name.endswith(".csv.gz") and npy_here:
            tokens = index.with_name(index.name.removesuffix(".csv.gz") + ".npy")
        if tokens is not None and tokens.name not in here:
            raise NotADatasetError(
                f"there is no file {tokens}, of which {index.name} is the index",
                hint="fetch the missing file; nothing can stand in for it",
            )


def _of_split_folders(
    folder: Path, folders: dict[str, Path | None], split: str | None, format: str | None, ask: Ask
) -> Found:
    """`train/` and `val/`: each is a whole split. With train/ alone, its end is held out."""
    here = {name: path for name, path in folders.items() if path is not None}
    if split is None:
        parts = [_renamed(_of_folder(path, None, format, ask), path.name) for path in here.values()]
        return join(parts, str(folder))
    if split in here:
        whole = split if list(here) == ["train"] else None
        return _renamed(_of_folder(here[split], whole, format, ask), here[split].name)
    if split == "val" and list(here) == ["train"]:
        return _renamed(_of_folder(here["train"], "val", format, ask), here["train"].name)
    raise FormatError(
        f"{folder} has no {split} split; it has the folders {', '.join(map(str, here))}",
        hint=f'open split="{next(iter(here))}", or split=None for everything',
    )


def _renamed(found: Found, folder: str) -> Found:
    return found.with_files([replace(file, name=f"{folder}/{file.name}") for file in found.files])


def _whole_files(paths: list[Path]) -> list[Path]:
    """Without hidden files and folders: those are temporary, or of something else."""
    return [path for path in paths if not path.name.startswith((".", "_tmp")) and path.is_file()]


def _of_files(
    paths: list[Path], split: str | None, format: str | None, ask: Ask, where: str
) -> Found:
    module = FILE_FORMATS[format] if format in FILE_FORMATS else _sniff(paths[0], format)
    found = join([module.read(path, ask) for path in paths], where)
    if len({path.parent for path in paths}) > 1:
        root = Path(os.path.commonpath([path.parent for path in paths]))
        found = found.with_files(
            [
                replace(file, name=path.relative_to(root).as_posix())
                for path, file in zip(paths, found.files, strict=True)
            ]
        )
    return found.with_files(take(found.files, split, where))


def _sniff(path: Path, format: str | None) -> ModuleType:
    """The format of a file by its first bytes, or by its name."""
    if path.is_dir():
        raise FormatError(f"{path} is a folder in a list of files; open it by itself")
    if format in FOLDER_FORMATS:
        raise FormatError(f"{path} is a file, but the format {format} is a folder with an index")
    first_bytes, _ = untrusted.head(path)
    for module in FILE_FORMATS.values():
        if module.claims(path, first_bytes):
            return module
    raise not_tokens(path, first_bytes)


def join(parts: Iterable[Found], where: str) -> Found:
    """Many files of one format as one dataset; files of different types are refused."""
    parts = list(parts)
    first = parts[0]
    kinds = {(part.format, file.dtype) for part in parts for file in part.files}
    for other in parts[1:] if len(kinds) > 1 else []:
        if _dtype(other) != _dtype(first):
            raise MismatchError(
                f"{where} mixes {_dtype(first)} ({first.files[0].path}) and "
                f"{_dtype(other)} ({other.files[0].path})",
                hint="convert one: tokenmill convert SRC DST --to tokenmill --to-dtype uint32",
            )
    return first.with_files([file for found in parts for file in found.files])


def _dtype(found: Found) -> str:
    dtypes: set[np.dtype] = {file.dtype for file in found.files}
    return f"{found.format} {'/'.join(sorted(dtype.name for dtype in dtypes))}"
