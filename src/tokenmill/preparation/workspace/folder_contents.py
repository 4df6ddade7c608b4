"""What is in a folder already: ours or not, whole or not, and is it what is asked for."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tokenmill.base.hashing import regular
from tokenmill.errors import FormatError
from tokenmill.preparation.settings import Settings, list_other_settings
from tokenmill.preparation.workspace.work_folder import STANDARD_INPUT
from tokenmill.shards.entries import SourceEntry
from tokenmill.shards.manifest import FILE_NAME, FORMAT, PREPARATION_FOLDER, Manifest
from tokenmill.text.inputs.open_input import Source

_OUR_MANIFEST = re.compile(rb'\A\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Whether tokenmill made a dataset here, be it damaged, or began to make one.

    The name of the manifest alone proves nothing: another program may use it as well.
    """
    if os.path.isdir(os.path.join(folder, PREPARATION_FOLDER)):
        return True
    try:
        with open(os.path.join(folder, FILE_NAME), "rb", opener=regular) as file:
            return _OUR_MANIFEST.match(file.read(4096)) is not None
    except (OSError, FormatError):
        return False


def manifest_hash(manifest: Manifest) -> str:
    """What names a manifest: the hash in it."""
    return manifest.digest


def sizes_of_files(manifest: Manifest) -> dict[str, int]:
    """Every file that the manifest answers for, and how large it must be."""
    sizes = {file.file: file.num_bytes for file in manifest.files_beside_shards}
    for split in manifest.splits.values():
        for shard in split.shards:
            sizes |= {file.file: file.num_bytes for file in shard.files}
    return sizes


def refuse_damaged(
    name: str, manifest: Manifest, size_of: Callable[[str], int | None], remedy: str
) -> None:
    """Raise where files are missing or not of their size: one look at each, nothing is read."""
    sizes = sizes_of_files(manifest)
    damaged = [
        f"{file}   is missing" if found is None else f"{file}   has {found:,} bytes, not {size:,}"
        for file, size in sizes.items()
        if (found := size_of(file)) != size
    ]
    if not damaged:
        return
    shown = damaged[:5] + ([f"and {len(damaged) - 5:,} more"] if len(damaged) > 5 else [])
    raise FormatError(
        f"the dataset {name} is damaged: {len(damaged):,} of {len(sizes):,} files are not as its "
        "manifest says\n" + "\n".join(f"       {line}" for line in shown),
        hint=f"{remedy}; `tokenmill verify {name}` says more",
    )


def recorded_settings(manifest: Manifest) -> dict[str, Any]:
    """The settings that a dataset was made with, without what else is recorded with them."""
    known = {field.name for field in fields(Settings)}
    found = {name: value for name, value in manifest.settings.items() if name in known}
    if manifest.tokenizer.begin_token_id is not None:  # also of a dataset that was converted
        found.setdefault("begin_token", str(manifest.tokenizer.begin_token_id))
    return found


def recorded_held_out(manifest: Manifest | None) -> dict[str, list[str]]:
    """The files of each validation set that was made from files, here or when it was added to."""
    settings: Mapping[str, Any] = {} if manifest is None else manifest.settings
    held_out: dict[str, list[str]] = {}
    for run in [settings, *settings.get("added", ())]:
        recorded = run.get("val_input", {})
        if not isinstance(recorded, dict) or not all(
            isinstance(f, list) for f in recorded.values()
        ):
            raise FormatError(f"{FILE_NAME}: settings.val_input is not a list of files a split")
        for split, files in recorded.items():
            held_out.setdefault(split, []).extend(files)
    return held_out


def list_differences_from(
    found: Manifest,
    known: Sequence[SourceEntry],
    made_ns: int,
    wanted: Mapping[str, Any],
    sources: Sequence[Source],
    piped: str | None,
) -> list[str]:
    """What is not as in the dataset that is there, a line each; `known` are all its inputs.

    A file has changed if it is newer than the dataset; standard input, if its hash `piped` is
    another one.
    """
    recorded = {(source.name, source.num_bytes) for source in known}
    ours = {(source.name, source.size) for source in sources}
    lines = list_other_settings(recorded_settings(found), wanted)
    lines += [f"input {name}   {n:,} bytes is new" for name, n in sorted(ours - recorded)]
    lines += [f"input {name}   {n:,} bytes is gone" for name, n in sorted(recorded - ours)]
    held_out = {name: split for split, files in recorded_held_out(found).items() for name in files}
    for source in sources:
        if source.split != (split := held_out.get(source.name)):
            lines.append(f"input {source.name}   is held out for {split} -> {source.split}")
        is_piped = piped is not None and source.name == STANDARD_INPUT
        if piped not in _piped_into(found) if is_piped else source.mtime_ns > made_ns:
            lines.append(f"input {source.name}   changed after the dataset was made")
    return lines


def _piped_into(manifest: Manifest) -> set[str]:
    """The hashes of what a dataset was made of, and added to, from standard input."""
    runs = [manifest.settings, *manifest.settings.get("added", ())]
    return {run["standard_input"] for run in runs if "standard_input" in run}


def in_already(
    found: Manifest, known: Sequence[SourceEntry], sources: Sequence[Source], piped: str | None
) -> list[str]:
    """The sources that seem to be in the dataset: of a file it knows no more than name and size."""
    recorded = {(source.name, source.num_bytes) for source in known}
    return [
        source.name
        for source in sources
        if (source.name, source.size) in recorded
        and not (piped and source.name == STANDARD_INPUT and piped not in _piped_into(found))
    ]
