"""Which tokens are held out: by folder, by name, else the last shard, else the last tenth.

One rule for all formats. Train and val never share a token, because both are cut from one list of
files by the same function.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tokenmill.errors import FormatError
from tokenmill.shards.read import TokenFile

FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test",),
}
SPLITS = tuple(FOLDERS)
# A word of its own in a file name: _train_, train.bin, -val., but not "trained" or "interval".
_WORDS = {
    split: re.compile(rf"(?<![a-z])({'|'.join(FOLDERS[split])})(?![a-z])") for split in SPLITS
}


def check_split(split: object) -> None:
    """Refuse a split that no rule can give."""
    if split is not None and split not in SPLITS:
        raise ValueError(
            f"unknown split {split!r}; known are: 'train', 'val', 'test', or None for all"
        )


def mark(name: str) -> str | None:
    """The split that a file name states, if it does."""
    stem = Path(name).name.lower()
    for split in ("val", "test", "train"):
        if _WORDS[split].search(stem):
            return split
    return None


def folder_of(root: Path, split: str) -> Path | None:
    """The folder of a split, if the dataset has folders for its splits."""
    for name in FOLDERS[split]:
        if (root / name).is_dir():
            return root / name
    return None


def take(files: Sequence[TokenFile], split: str | None, where: object) -> list[TokenFile]:
    """The part of these files that belongs to a split."""
    if split is None:
        return list(files)
    marks = [mark(file.name) for file in files]
    if "val" in marks or "test" in marks:
        return _by_name(files, marks, split, where)
    if split == "test":
        raise FormatError(
            f"{where} has no test split: no file name says test",
            hint='open split="val", which is held out by rule, or split=None for everything',
        )
    if all(word == "train" for word in marks) and (other := _val_beside(files)):
        if split == "train":
            return list(files)
        raise FormatError(
            f"{where} is the train split, by its name; {other.name} beside it is the other one",
            hint=f'tokenmill.open("{other}", split="val")',
        )
    return _held_out(files, split)


def stated(files: Sequence[TokenFile], where: object) -> dict[str | None, Sequence[TokenFile]]:
    """The splits that folders or names state; {None: all} where nothing states one."""
    by_split: dict[str | None, list[TokenFile]] = {}
    for file in files:
        folder = Path(file.name).parts[0] if "/" in file.name else ""
        words = [split for split in SPLITS if folder.lower() in FOLDERS[split]]
        split = file.split or (words[0] if words else mark(file.name))
        by_split.setdefault(split, []).append(file)
    if set(by_split) == {None, "train"}:
        return {"train": files}
    if None in by_split and len(by_split) > 1:
        if "train" in by_split:
            take(files, "train", where)  # says which file belongs to no split
        by_split["train"] = by_split.pop(None)
    order = [*SPLITS, *(split for split in by_split if split not in SPLITS)]
    return {split: by_split[split] for split in order if split in by_split}


def _by_name(
    files: Sequence[TokenFile], marks: list[str | None], split: str, where: object
) -> list[TokenFile]:
    if split == "train" and "train" not in marks:
        chosen = [file for file, word in zip(files, marks, strict=True) if word is None]
    else:
        chosen = [file for file, word in zip(files, marks, strict=True) if word == split]
        unmarked = [file.name for file, word in zip(files, marks, strict=True) if word is None]
        if "train" in marks and unmarked:
            raise FormatError(
                f"{where} has files for train and val by name, but {unmarked[0]} says neither",
                hint="pass the files by name or glob, and split=None",
            )
    if not chosen:
        said = ", ".join(sorted({word or "nothing" for word in marks}))
        raise FormatError(
            f"{where} has no {split} split: its file names say {said}",
            hint=f'open split="{next(filter(None, marks))}", or split=None for everything',
        )
    return chosen


def _val_beside(files: Sequence[TokenFile]) -> Path | None:
    """A held-out file in the same folder, named as these but for the split."""
    for file in files:
        path = Path(file.path)
        for word in FOLDERS["val"]:
            other = path.with_name(_WORDS["train"].sub(word, path.name, count=1))
            if other != path and other.is_file():
                return other
    return None


def _held_out(files: Sequence[TokenFile], split: str) -> list[TokenFile]:
    full = [i for i, file in enumerate(files) if file.num_tokens]
    if len(full) >= 2:
        last = full[-1]
        return list(files[last:]) if split == "val" else list(files[:last])
    if not full:
        return list(files)
    only = files[full[0]]
    kept = only.num_tokens * 9 // 10
    if split == "val":
        return [part(only, kept, only.num_tokens)]
    return [part(only, 0, kept)]


def part(file: TokenFile, start: int, stop: int) -> TokenFile:
    """A range of the tokens of a file."""
    return replace(
        file, first=file.first + start, num_tokens=stop - start, partial=True, digest=file.digest
    )
