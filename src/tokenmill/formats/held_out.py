"""Which tokens are held out: by folder, by name, else the last shard, else the last tenth.

One rule for all formats. Train and val never share a token, because both are cut from one list of
files by the same function; a folder, a glob over folders and a list give the same.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tokenmill.errors import FormatError
from tokenmill.reading.token_file import TokenFile

FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test",),
}
Groups = dict[str | None, list[TokenFile]]
"""Files by their split; None: nothing states one."""
SPLITS = tuple(FOLDERS)
ALL = "all"
NAMED = re.compile(r"val_[a-z0-9][a-z0-9_]*")
_SPLIT_OF_FOLDER = {name: split for split in SPLITS for name in FOLDERS[split]}
# A word of its own in a file name: _train_, train.bin, -val., but not "trained" or "interval".
_WORDS = {
    split: re.compile(rf"(?<![a-z])({'|'.join(FOLDERS[split])})(?![a-z])") for split in SPLITS
}


def check_split(split: object) -> None:
    """Refuse a split that no rule can give."""
    if split not in (None, ALL, *SPLITS) and not is_named(split):
        raise ValueError(
            f"unknown split {split!r}; known are: 'train', 'val', 'test', 'all', and validation "
            "sets with a name such as 'val_code'"
        )


def is_named(split: object) -> bool:
    """Whether this is a validation set with a name of its own."""
    return isinstance(split, str) and NAMED.fullmatch(split) is not None


def named_splits(files: Sequence[TokenFile]) -> list[str]:
    """The validation sets with a name of their own that these files belong to."""
    return sorted(filter(is_named, {f.split or f.name.partition("/")[0] for f in files}))


def folder_of(root: Path, split: str) -> Path | None:
    """The folder of a split, if the dataset has folders for its splits."""
    return next(filter(Path.is_dir, (root / name for name in FOLDERS[split])), None)


def take(files: Sequence[TokenFile], split: str | None, where: object) -> list[TokenFile]:
    """Return the part of these files that belongs to a split; None: train, if they have splits."""
    if split == ALL:
        return list(files)
    by_mark = _grouped(files, _marks(files))
    is_held_out = "val" in by_mark or "test" in by_mark
    if split is None:
        if len(by_mark) == 1 or not is_held_out:
            return list(files)
        return in_split(_marked(by_mark, "train", where), "train")
    if is_held_out:
        return _marked(by_mark, split, where)
    if list(by_mark) == ["train"] and (other := _other_beside(files)):
        if split == "train":
            return list(files)
        raise FormatError(
            f"{where} is the train split, by its name; {other.name} beside it is the other one",
            hint=f'tokenmill.open("{other}", split="{_word_of(other) or "val"}")',
        )
    if split not in ("train", "val"):
        raise FormatError(
            f"{where} has no {split} split: no folder or file name says {split}",
            hint='open split="val", which is held out by rule, or split="all" for everything',
        )
    return _held_out(files, split)


def in_split(files: Sequence[TokenFile], split: str) -> list[TokenFile]:
    """Return these files, each with the split that it belongs to."""
    return [replace(file, split=split) for file in files]


def stated(files: Sequence[TokenFile], where: object) -> dict[str | None, Sequence[TokenFile]]:
    """Return the splits that folders or names state; {None: all} where nothing states one."""
    splits = []
    for file, word in zip(files, _marks(files), strict=True):
        folder = Path(file.name).parts[0] if "/" in file.name else ""
        splits.append(file.split or _word_of(Path(folder)) or word)
    by_split = _grouped(files, splits)
    if set(by_split) == {None, "train"}:
        return {"train": files}
    if None in by_split and len(by_split) > 1:
        if "train" in by_split:
            take(files, "train", where)  # says which file belongs to no split
        by_split["train"] = by_split.pop(None)
    order = [*SPLITS, *sorted((split for split in by_split if split not in SPLITS), key=str)]
    return {split: by_split[split] for split in order if split in by_split}


def _marks(files: Sequence[TokenFile]) -> list[str | None]:
    """The split that the folder of each file states, else its name, else a folder further up."""
    folder_marks = cache(_folder_marks)
    marks = []
    for file in files:
        near, far = folder_marks(os.path.dirname(file.path))
        name = Path(file.name).name.lower()
        named = next((x for x in ("val", "test", "train") if _WORDS[x].search(name)), None)
        marks.append(near or (far if far == "val" else named or far))
    return marks


def _folder_marks(folder: str) -> tuple[str | None, str | None]:
    """What the folder of a file says, and what the nearest one above it says.

    `train` and `val` side by side say it at any height. Alone, only the folder itself does, when
    the caller named it: /home/val/project is the home of somebody. `test` and `val_code` alone say
    nothing.
    """
    here = Path(os.path.abspath(folder))
    words = [_word_of(here) if _has_other_beside(here) else None]
    words += [_word_of(above) for above in here.parents if _has_other_beside(above)]
    if words[0] is None and Path(folder).name and _word_of(here) in ("train", "val"):
        words[0] = _word_of(here)
    return words[0], next((word for word in words[1:] if word in ("train", "val")), None)


def _word_of(folder: Path) -> str | None:
    name = folder.name.lower()
    return _SPLIT_OF_FOLDER.get(name) or (name if is_named(name) else None)


def _has_other_beside(folder: Path) -> bool:
    """Return True for the folder of a split with the folder of another one beside it."""
    split = _word_of(folder)
    return split is not None and any(
        folder_of(folder.parent, other) for other in SPLITS if other != split
    )


def _marked(by_mark: Groups, split: str, where: object) -> list[TokenFile]:
    """Return the files with this mark; those without any are train if no others are."""
    unmarked = by_mark.get(None, [])
    if "train" in by_mark and unmarked:
        raise FormatError(
            f"{where} has files for train and val by name, but {unmarked[0].name} says neither",
            hint='pass the files by name or glob, and split="all"',
        )
    if chosen := by_mark.get(split, unmarked if split == "train" else []):
        return chosen
    said = ", ".join(sorted(word or "nothing" for word in by_mark))
    hint = f'open split="{next(filter(None, by_mark))}", or split="all" for everything'
    files = [file for marked in by_mark.values() for file in marked]
    if other := _folder_beside(files, split, of=SPLITS):
        hint = f'tokenmill.open("{other}", split="{split}"), or {hint}'
    raise FormatError(
        f"{where} has no {split} split: its folder and file names say {said}", hint=hint
    )


def _grouped(files: Sequence[TokenFile], splits: Iterable[str | None]) -> Groups:
    groups: Groups = {}
    for file, split in zip(files, splits, strict=True):
        groups.setdefault(split, []).append(file)
    return groups


def _folder_beside(files: Sequence[TokenFile], split: str, of: Sequence[str]) -> Path | None:
    """The folder of a split, beside a folder of one of these splits that the files are in."""
    for folder in dict.fromkeys(os.path.dirname(file.path) for file in files):
        # As the caller wrote it, if that reaches far enough.
        for here in (Path(folder), Path(os.path.abspath(folder))):
            for above in (here, *here.parents):
                if _word_of(above) in of and (other := folder_of(above.parent, split)):
                    return other
    return None


def _other_beside(files: Sequence[TokenFile]) -> Path | None:
    """What holds the held-out tokens of these: a folder beside theirs, or a file named as they."""
    for split in ("val", "test"):
        if folder := _folder_beside(files, split, of=("train",)):
            return folder
    for file in files:
        path = Path(file.path)
        for word in FOLDERS["val"]:
            other = path.with_name(_WORDS["train"].sub(word, path.name, count=1))
            if other != path and other.is_file():
                return other
    return None


def _held_out(files: Sequence[TokenFile], split: str) -> list[TokenFile]:
    full = [i for i, file in enumerate(files) if file.num_tokens]
    if not full:
        return list(files)
    last = full[-1]
    if len(full) >= 2:
        return list(files[last:] if split == "val" else files[:last])
    only = files[last]
    kept = only.num_tokens * 9 // 10
    return [only.part(kept, only.num_tokens) if split == "val" else only.part(0, kept)]
