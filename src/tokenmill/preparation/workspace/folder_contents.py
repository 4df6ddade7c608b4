"""What is in a folder already: a tokenmill dataset or not, whole or not, and made from what."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from tokenmill.base.hashing import regular
from tokenmill.errors import FormatError
from tokenmill.preparation.planning.settings import Settings
from tokenmill.shards.entries import SourceEntry
from tokenmill.shards.manifest import FILE_NAME, FORMAT, PREPARATION_FOLDER, Manifest
from tokenmill.text.inputs.open_input import Source

_OUR_MANIFEST = re.compile(rb'\A\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Return True if tokenmill made a dataset here, even a damaged one, or started to.

    The name of the manifest alone proves nothing: another program may use it as well.
    """
    if os.path.isdir(os.path.join(folder, PREPARATION_FOLDER)):
        return True
    try:
        with open(os.path.join(folder, FILE_NAME), "rb", opener=regular) as file:
            return _OUR_MANIFEST.match(file.read(4096)) is not None
    except (OSError, FormatError):
        return False


def sizes_of_files(manifest: Manifest) -> dict[str, int]:
    """Size of every file that the manifest answers for."""
    in_shards = (file for shard in manifest.shards for file in shard.files)
    return {file.file: file.num_bytes for file in (*manifest.files_beside_shards, *in_shards)}


def refuse_damaged(
    name: str, manifest: Manifest, size_of: Callable[[str], int | None], remedy: str
) -> None:
    """Raise if files are missing or not of their size; nothing is read."""
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
    """Settings that a dataset was made with, without what else is recorded with them."""
    names = {field.name for field in fields(Settings)}
    settings = {name: value for name, value in manifest.settings.items() if name in names}
    if manifest.tokenizer.begin_token_id is not None:  # also of a dataset that was converted
        settings.setdefault("begin_token", str(manifest.tokenizer.begin_token_id))
    return settings


def recorded_held_out(manifest: Manifest | None) -> dict[str, list[str]]:
    """Files of each validation set that was made from files, at first or by a later addition."""
    if manifest is None:
        return {}
    held_out = defaultdict[str, list[str]](list)
    for run in [manifest.settings, *manifest.settings.get("added", ())]:
        try:
            for split, files in run.get("val_input", {}).items():
                held_out[split] += [str(file) for file in files]
        except (AttributeError, TypeError):
            raise FormatError(
                f"{FILE_NAME}: settings.val_input is not a list of files per split"
            ) from None
    return dict(held_out)


def list_changed_inputs(
    manifest: Manifest, recorded: Sequence[SourceEntry], sources: Sequence[Source], made_ns: int
) -> list[str]:
    """List how these inputs differ from those of a dataset, one line each.

    A file is known by name and size, and has changed if it is newer than the dataset.
    """
    before = {(source.name, source.num_bytes) for source in recorded}
    now = {(source.name, source.size) for source in sources}
    lines = [f"input {name}   {size:,} bytes is new" for name, size in sorted(now - before)]
    lines += [f"input {name}   {size:,} bytes is gone" for name, size in sorted(before - now)]
    splits = {name: split for split, names in recorded_held_out(manifest).items() for name in names}
    for source in sources:
        if source.split != (split := splits.get(source.name)):
            lines.append(f"input {source.name}   is held out for {split} -> {source.split}")
        if source.mtime_ns > made_ns:
            lines.append(f"input {source.name}   changed after the dataset was made")
    return lines
