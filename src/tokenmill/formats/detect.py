"""From a path, a list or a glob to shards: which format it is, and which files.

A folder is asked first for the index of a format (tokenmill, MDS, litdata), then for a folder of
the split, then for token files. All files of a dataset are of one format; another is an error.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from tokenmill.base.suggest import closest, one_of
from tokenmill.errors import FormatError, MismatchError, NotADatasetError
from tokenmill.formats import untrusted
from tokenmill.formats.format import (
    FILE_FORMATS,
    FILE_SIGNS,
    FORMATS,
    INDEX_OF,
    OURS,
    SAMPLE_INDEX,
    SAMPLE_KEYS,
    TOKEN_SUFFIXES,
    Ask,
    FileFormat,
    FoundData,
    load_format,
)
from tokenmill.formats.held_out import ALL, SPLITS, folder_of, in_split, is_named, take
from tokenmill.shards.manifest import FILE_NAME, PREPARATION_FOLDER

Where: TypeAlias = str | os.PathLike[str]


def detect(
    where: Where | Sequence[Where], split: str | None, *, format: str | None, ask: Ask
) -> FoundData:
    """Return the shards of a split; at least one token."""
    if format is not None:
        one_of("format", format, FORMATS)
    items = [where] if isinstance(where, (str, os.PathLike)) else where
    paths = [path for item in items for path in _expand(item)]
    if not paths:
        raise ValueError("the list of token files is empty")
    if items is not where and paths[0].is_dir():
        found = _read_folder(paths[0], split, format, ask)
    else:
        shown = f"the list of {len(paths)} files" if items is where else str(where)
        found = _read_files(paths, split, format, ask, shown)
    if not any(file.num_tokens for file in found.files):
        names = ", ".join(file.path or file.name for file in found.files[:3])
        raise FormatError(
            f"there are no tokens in {names}" + (f" for split {split!r}" if split else ""),
            hint="the files are empty: whatever wrote them was stopped or had nothing to write",
        )
    return found


def _expand(where: Where) -> list[Path]:
    """Return one path, or the files that a glob matches in byte order of the names."""
    path = Path(where)
    if path.exists():
        return [path]
    text = os.fspath(where)
    if Path(text + ".idx").is_file():  # Megatron's users name the pair without its suffix
        return [Path(text + ".bin")]
    import glob

    if not glob.has_magic(text):
        names = os.listdir(path.parent) if path.parent.is_dir() else []
        near = closest(path.name, sorted(names))
        raise NotADatasetError(
            f"there is no file or folder {str(path)!r} (looked in {Path.cwd()})",
            hint=f"did you mean {path.parent / near}?" if near else None,
        )
    names = sorted(glob.glob(text, recursive=True), key=os.fsencode)  # noqa: PTH207
    files = [Path(name) for name in names if not Path(name).is_dir()]
    if not names:
        raise NotADatasetError(f"no file matches {text!r} (looked in {Path.cwd()})")
    if not files and len(names) > 1:
        raise NotADatasetError(
            f"{text!r} matches {len(names)} folders and no file",
            hint=f'open one of them, or the files in them: tokenmill.open("{text}/*")',
        )
    return files or [Path(names[0])]


def _read_folder(folder: Path, split: str | None, name: str | None, ask: Ask) -> FoundData:
    owner = None
    if (folder / FILE_NAME).is_file() or (folder / PREPARATION_FOLDER).is_dir():
        owner = OURS
    elif (index := folder / SAMPLE_INDEX).is_file():
        fields = untrusted.read_json(index, {})
        owner = next((name for name, key in SAMPLE_KEYS.items() if key in fields), None)
    if owner is not None and name in (None, owner):
        found: FoundData = load_format(owner).read_folder(folder, split, ask)
        return found
    folders = {split: path for split in SPLITS if (path := folder_of(folder, split))}
    if {"train", "val"} & set(folders):
        folders |= {path.name: path for path in sorted(folder.glob("val_*")) if is_named(path.name)}
        return _read_split_folders(folder, folders, split, name, ask)
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
        from tokenmill.formats.not_tokens import nothing_in

        raise nothing_in(folder)
    return _read_files(paths, split, name, ask, str(folder))


def _check_that_nothing_is_missing(entries: list[Path], token_files: set[str]) -> None:
    """Refuse an index without its tokens: it is the trace of a lost file."""
    has_npy = any(name.endswith(".npy") for name in token_files)
    for index in entries:
        for ending, suffix in INDEX_OF.items():
            tokens = index.name.removesuffix(ending) + suffix
            # Without any .npy, a .csv.gz is a table of something else.
            is_index = index.name.endswith(ending) and (has_npy or suffix != ".npy")
            if is_index and tokens not in token_files:
                raise untrusted.missing(index.with_name(tokens), index)


def _read_split_folders(
    folder: Path, folders: dict[str, Path], split: str | None, format: str | None, ask: Ask
) -> FoundData:
    """Read `train/` and `val/`, each a whole split. With train/ alone, its end is held out."""
    everything = split == ALL or (split is None and len(folders) == 1)
    wanted = split or "train"
    inner = ALL
    if not everything and list(folders) == ["train"] and wanted in ("train", "val"):
        inner = wanted
        wanted = "train"
    if not everything and wanted not in folders:
        raise FormatError(
            f"{folder} has no {wanted} split; it has the folders {', '.join(folders)}",
            hint=f'open split="{next(iter(folders))}", or split="all" for everything',
        )
    parts = []
    for path in folders.values() if everything else [folders[wanted]]:
        found = _read_folder(path, inner, format, ask)
        named = [replace(file, name=f"{path.name}/{file.name}") for file in found.files]
        parts.append(found.with_files(named))
    whole = _join(parts, str(folder))
    if split is None and not everything:
        return whole.with_files(in_split(whole.files, "train"))
    return whole


def _read_files(
    paths: list[Path], split: str | None, name: str | None, ask: Ask, where: str
) -> FoundData:
    format: FileFormat = load_format(_file_format(paths[0], name))
    found = _join([format.read(path, ask) for path in paths], where)
    files = found.files
    if len({path.parent for path in paths}) > 1:
        root = Path(os.path.commonpath([path.parent for path in paths]))
        names = [path.relative_to(root).as_posix() for path in paths]
        files = tuple(replace(file, name=name) for file, name in zip(files, names, strict=True))
    return found.with_files(take(files, split, where))


def _file_format(path: Path, name: str | None) -> str:
    """Return the format of a file: the one that was named, else by its first bytes or its name."""
    if name in FILE_FORMATS:
        return name
    if path.is_dir():
        raise FormatError(f"{path} is a folder in a list of files; open it by itself")
    if name is not None:
        raise FormatError(f"{path} is a file, but the format {name} is a folder with an index")
    first_bytes, _ = untrusted.head(path)
    for sign in FILE_SIGNS:
        if sign.claims(path, first_bytes):
            return sign.name
    from tokenmill.formats.not_tokens import unclaimed

    raise unclaimed(path, first_bytes)


def _join(parts: list[FoundData], where: str) -> FoundData:
    """Return many files of one format as one dataset; files of different types are refused."""
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
    return first.with_files(file for part in parts for file in part.files)
