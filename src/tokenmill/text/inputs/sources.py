"""Input files: files, folders and quoted globs become one ordered list (docs/guides/inputs.md).

Names are those of every machine, wherever the corpus is: relative to the closest folder that holds
all files. The order is the byte order of the names. Outputs of earlier runs may be among the text:
`skip_folder` says which folders are skipped.
"""

import functools
import glob
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenmill.base.address import check_address, is_address, is_hub
from tokenmill.base.human import plural
from tokenmill.base.system import portable_path
from tokenmill.errors import PrepareError
from tokenmill.text.inputs.file_kind import HEAD_BYTES, detect_kind, is_taken, make_source, suffixes
from tokenmill.text.inputs.open_input import (
    REQUESTS_AT_ONCE,
    UNREADABLE,
    Source,
    cannot_read,
    printable,
)

Entry = str | os.PathLike[str]
SkipFolder = Callable[[str], bool]
# What datasets.save_to_disk writes next to the data.
_SAVED_DATASET = {"state.json", "dataset_info.json"}
_SHOWN = 80  # characters of what was given


def find_sources(inputs: Entry | Sequence[Entry]) -> list[Source]:
    """Return all input files, in byte order of their names."""
    return search([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)[0]


def search(
    inputs: Sequence[Entry],
    skip_folder: SkipFolder = lambda folder: False,
    *,
    count_unreadable: bool = False,
    held_out: Mapping[str, Sequence[Entry]] | None = None,
    gitignore: bool = False,
) -> tuple[list[Source], list[str]]:
    """Return all input files, and the paths that were skipped.

    A file that is missing or not readable is an error, or with `count_unreadable` a source of
    kind `unreadable` and size 0. `held_out` are inputs for validation, by the name of their split;
    a file that `inputs` name as well is held out. `gitignore` skips what git ignores, if not named.
    """
    skipped: list[str] = []
    given_by: dict[str, str] = {}
    split_of: dict[str, str | None] = {}
    for split, entries in [*(held_out or {}).items(), (None, inputs)]:
        for entry in entries:
            text = os.fspath(entry)
            paths = _expand(text, skipped, skip_folder)
            if gitignore and not is_address(text) and not os.path.isfile(text):
                from tokenmill.text.inputs.checkout import without_ignored

                folder = text if os.path.isdir(text) else _closest_folder(text)
                paths = without_ignored(paths, folder, skipped)
            for path in paths:
                if split is None and split_of.get(path) is not None:
                    continue
                if path in given_by:
                    raise _twice(path, given_by[path], text)
                given_by[path] = text
                split_of[path] = split
    if not given_by:
        raise PrepareError("no input was given", hint="name files, folders or quoted globs")
    sources = _make_sources(given_by, count_unreadable)
    if held_out:
        sources = in_order(replace(source, split=split_of[source.path]) for source in sources)
    return sources, skipped


def in_order(sources: Iterable[Source]) -> list[Source]:
    """Sort held-out files first, by split; in each split, and in the rest, by name."""
    return sorted(sources, key=lambda s: (s.split is None, s.split or "", s.name.encode()))


def _expand(text: str, skipped: list[str], skip_folder: SkipFolder) -> list[str]:
    if is_address(text):
        return _expand_remote(text, skipped)
    if os.path.isdir(text):
        return _in_folder(text, skipped, skip_folder)
    if os.path.lexists(text):
        return [os.path.abspath(text)]
    return _matching(text, skipped, skip_folder)


def _expand_remote(text: str, skipped: list[str]) -> list[str]:
    objects: Any
    paths: list[str]
    if is_hub(text):
        from tokenmill.hub import hub_inputs as objects
    else:
        from tokenmill.stores import objects
    address = objects.pin(text) if is_hub(text) else check_address(text)
    if glob.has_magic(address):
        paths = objects.list_matching(address)
    elif not text.endswith("/") and objects.find(address):
        return [address]
    else:
        below = objects.list_below(address)
        paths = [path for path in below if is_taken(path.removeprefix(address))]
        skipped += sorted(set(below) - set(paths), key=os.fsencode)
    if not paths:
        raise PrepareError(
            f"there is nothing to read at {printable(text)}",
            hint="give an object, a prefix that holds .txt, .jsonl, .csv or .parquet, or a glob",
            source=printable(text),
        )
    return paths


def _matching(text: str, skipped: list[str], skip_folder: SkipFolder) -> list[str]:
    matches = glob.glob(text, recursive=True)  # noqa: PTH207 - sorted by name later
    paths = dict.fromkeys(os.path.abspath(path) for path in matches if not os.path.isdir(path))
    if not paths:
        raise _missing(text)
    base = os.path.abspath(_closest_folder(text))

    @functools.cache
    def closed_by(folder: str) -> str | None:
        """Return the folder to skip that holds this one (or is it), or None."""
        above = os.path.dirname(folder)
        closed = None if folder in (base, above) else closed_by(above)
        return folder if closed is None and skip_folder(folder) else closed

    closed = {path: closed_by(os.path.dirname(path)) for path in paths}
    folders = sorted({folder for folder in closed.values() if folder}, key=os.fsencode)
    taken = [path for path in paths if closed[path] is None]
    if not taken:
        raise _nothing_but_datasets(folders[0])
    skipped += folders
    return taken


def _closest_folder(path: str) -> str:
    """Return the folder that a path or a glob is in, or the closest one above that exists."""
    folder = os.path.dirname(path)
    while folder and (glob.has_magic(folder) or not os.path.isdir(folder)):
        folder = os.path.dirname(folder)
    return folder


def _nothing_but_datasets(folder: str) -> PrepareError:
    return PrepareError(
        f"{printable(folder)} holds a dataset, or the work on one, and no text",
        hint="name the folder that holds the text; if it is this one, name each file",
    )


def _in_folder(folder: str, skipped: list[str], skip_folder: SkipFolder) -> list[str]:
    if skip_folder(folder):
        raise _nothing_but_datasets(folder)
    paths: list[str] = []
    others: list[str] = []

    def stop(error: OSError) -> None:
        raise cannot_read(os.fspath(error.filename or folder), error) from error

    for parent, folders, names in os.walk(os.path.abspath(folder), onerror=stop):
        closed = [n for n in folders if n.startswith(".") or skip_folder(os.path.join(parent, n))]
        folders[:] = [name for name in folders if name not in closed]
        others += [os.path.join(parent, name) for name in closed]
        about = _SAVED_DATASET if {*names} >= _SAVED_DATASET else ()
        if "dataset_dict.json" in names:
            names = sorted(folders)
            what = f"{printable(parent)} is a dataset of several splits: {', '.join(names)[:80]}"
            raise PrepareError(what, hint=f"name the folder of one: {printable(parent)}/{names[0]}")
        for name in names:
            is_text = is_taken(name) and name not in about
            (paths if is_text else others).append(os.path.join(parent, name))
    if not paths:
        anything = os.path.join(printable(folder), "*")
        raise PrepareError(
            f"no file of a known kind in the folder {printable(folder)}",
            hint=f"{count_suffixes(others) or 'it is empty'}; to take files of any name, give a "
            f"quoted glob such as {anything!r}",
        )
    skipped += sorted(others, key=os.fsencode)
    return paths


def _make_sources(given_by: dict[str, str], count_unreadable: bool) -> list[Source]:
    names = _names(list(given_by))
    if is_address(next(iter(names))):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:  # each costs three round trips
            return list(pool.map(make_source, names, names.values()))
    first_with: dict[tuple[int, int], str] = {}
    sources = []
    for path, name in names.items():
        try:
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(0, "it is not a regular file")
            with open(path, "rb", buffering=0) as file:
                head = file.read(HEAD_BYTES)
        except OSError as error:
            if count_unreadable and error.errno in UNREADABLE:
                sources.append(Source(path, name, 0, 0, "unreadable", None))
                continue
            raise cannot_read(path, error) from error
        same = first_with.setdefault((about.st_dev, about.st_ino), path)
        if same != path:
            raise _twice(path, same, given_by[path])
        kind = detect_kind(path, about.st_size, head)
        sources.append(Source(path, name, about.st_size, about.st_mtime_ns, *kind))
    return sources


def _names(paths: list[str]) -> dict[str, str]:
    if len({path.partition("://")[0] if is_address(path) else "" for path in paths}) > 1:
        raise PrepareError(
            "some inputs are files and some are objects in a bucket or on the hub, or they are in "
            "different clouds, so their names have no common folder",
            hint="copy the smaller part to where the larger is, or prepare one and add the other",
        )
    portable = {path: path if is_address(path) else portable_path(path) for path in paths}
    parent = os.path.commonprefix(list(portable.values())).rpartition("/")[0]  # noqa: RUF071
    cut = 0 if is_hub(paths[0]) else len(parent) + 1  # a name on the hub has the commit in it
    names = {path: _encode_name(name[cut:]) for path, name in portable.items()}
    return dict(sorted(names.items(), key=lambda item: item[1].encode()))


def _encode_name(relative: str) -> str:
    """Percent-encode what is not printable UTF-8, and "%" itself, so that names stay apart."""
    if relative.isprintable() and "%" not in relative:
        return relative
    return "".join(
        character
        if character.isprintable() and character != "%"
        else "".join(f"%{byte:02X}" for byte in os.fsencode(character))
        for character in relative
    )


def _twice(path: str, first: str, second: str) -> PrepareError:
    return PrepareError(
        f"{printable(path)} is given twice: by {printable(first)!r} and by {printable(second)!r}",
        hint="name each file once; its text would be in the dataset twice",
        source=printable(path),
    )


def _missing(text: str) -> PrepareError:
    shown = printable(text[:_SHOWN])[:_SHOWN]
    rest = f" and {len(text) - _SHOWN:,} characters more" if len(text) > _SHOWN else ""
    what = "no file matches" if glob.has_magic(text) else "no such file:"
    what = f"{what} '{shown}'{rest}"
    folder = _closest_folder(text)
    here = printable(folder) or "."
    try:
        with os.scandir(folder or ".") as entries:
            held = count_suffixes(e.name for e in entries if e.is_file())
    except OSError:
        held = ""
    return PrepareError(
        f"{what} (looked in {printable(os.getcwd())})",
        hint=f"the folder {here.rstrip('/')}/ holds {held or 'no files'}; a text, and not a path? "
        "In Python pass [text], or iter([text]) if it could be a name",
        source=shown,
    )


def count_suffixes(names: Iterable[str]) -> str:
    """ "12 .jsonl files, 1 .md file", the most frequent first."""
    counts = Counter("".join(suffixes(name)) or "other" for name in names)
    shown = [
        plural(n, f"{printable(suffix)} file")
        for suffix, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")
