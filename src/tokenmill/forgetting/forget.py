"""forget(path, ids=...): overwrite documents of a dataset, and certify it.

    chosen_documents.py    which documents are meant
    trained_runs.py        which steps and checkpoints had trained on them
    overwritten_shards.py  a new folder: files that change are written, all others linked

The new folder takes the place of the dataset when it is whole, as that of `convert` does; killed at
any moment, the same call again does the rest. Then copies in the cache folder are removed.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import sync_folder, user_cache, write_atomically
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.signatures import checks_arguments
from tokenmill.conversion.convert import new_folder
from tokenmill.errors import FormatError
from tokenmill.forgetting.chosen_documents import Chosen, choose
from tokenmill.forgetting.overwritten_shards import Overwriting
from tokenmill.forgetting.trained_runs import trained_run
from tokenmill.shards.forgotten import FILE_NAME, Forgotten
from tokenmill.shards.manifest import PREPARATION_FOLDER, FileEntry, Manifest

_ID = re.compile("[0-9a-f]{32}")


@checks_arguments
def forget(
    path: str | os.PathLike[str],
    *,
    ids: str | os.PathLike[str] | Sequence[str] | None = None,
    where: str | None = None,
    runs: Sequence[str] = (),
    cache_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Overwrite documents of a tokenmill dataset with end-of-text ids that are no targets.

    `ids` is a file with an id per line, or the ids; `where` is SQL over the facts. Facts are
    emptied but for the id. Every other token keeps its place: runs resume, with the same order. For
    each folder in `runs`, the certificate says which steps and checkpoints had trained on them.

    Return what was added to the certificate; without documents where all were forgotten before.
    """
    if (ids is None) == (where is None):
        raise ValueError("name the documents to forget, either by ids or by where")
    if is_remote(path):
        raise ValueError(
            f"{path} is in a store, whose versions and copies cannot be overwritten from here"
            "\n\nhint: bring it to a disk, forget there, upload it, and remove what is in the store"
        )
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        Manifest.load(target)  # says so
    with interrupt_on_signals(), new_folder(target) as new:
        manifest = Manifest.load(target)
        if (target / PREPARATION_FOLDER).exists():
            raise FormatError(
                f"{path} is being prepared, or its preparation was stopped",
                hint="finish it with the same command, then forget",
            )
        record = Forgotten.load(target, manifest)
        chosen = choose(target, manifest.splits, record, _read_ids(ids) if where is None else where)
        about: dict[str, Any] = {"documents": {}, "manifest": manifest.digest, "files": []}
        keys = {key for documents in chosen.values() for key in documents.values()}
        about["runs"] = [trained_run(run, keys) for run in runs]
        for split, documents in chosen.items():
            for number in documents.keys() & record.documents(split).keys():
                del documents[number]
        if any(chosen.values()):
            splits = Overwriting(target, new, manifest, record).write(chosen)
            _certify(new, manifest, replace(manifest, splits=splits), record, chosen, about)
    _remove_cached(record, Path(cache_dir) if cache_dir else user_cache("shards"))
    return about


def _read_ids(ids: Any) -> list[str]:
    lines = ids if isinstance(ids, list | tuple) else Path(ids).read_text("utf-8").splitlines()
    found = [line.strip().lower() for line in lines if line.strip()]
    for number, key in enumerate(found, 1):
        if not _ID.fullmatch(key):
            raise FormatError(f"id {number:,} is {key!r:.60}; an id has 32 hex digits")
    return found


def _certify(
    new: Path,
    before: Manifest,
    after: Manifest,
    record: Forgotten,
    chosen: Chosen,
    about: dict[str, Any],
) -> None:
    """Write the certificate, and the manifest last."""
    for split, documents in chosen.items():
        entries = [{"document": n, "id": key} for n, key in sorted(documents.items())]
        about["documents"][split] = entries
    former = _hashes(before)
    about["files"] += [
        {"file": name, "before": former.get(name), "after": digest}
        for name, digest in _hashes(after).items()
        if former.get(name) != digest
    ]
    record.forgotten.append(about)
    data = record.to_bytes()
    write_atomically(new / FILE_NAME, data)
    named = FileEntry(FILE_NAME, len(data), xxhash.xxh3_128_hexdigest(data))
    replace(after, forgotten=named).write(new)
    for folder in [new, *filter(Path.is_dir, new.rglob("*"))]:
        sync_folder(folder)


def _hashes(manifest: Manifest) -> dict[str, str]:
    files = [file for shard in manifest.shards for file in shard.contents]
    files += [split.facts for split in manifest.splits.values() if split.facts]
    return {file.file: file.xxh3_128 for file in files}


def _remove_cached(record: Forgotten, cache: Path) -> None:
    """Remove the copies of files that were written again, which are named by their hashes."""
    before = {file["before"] for time in record.forgotten for file in time["files"]}
    for path in cache.glob("*"):
        if re.split("[.-]", path.name)[0] in before:
            path.unlink(missing_ok=True)
