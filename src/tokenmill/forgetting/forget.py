"""forget(path, ids=...): overwrite documents in place of their dataset, and certify it.

    chosen_documents.py   which documents are meant
    trained_runs.py       which steps and checkpoints had trained on them
    overwritten_files.py  a new folder: files that change are written, all others linked

The new folder takes the place of the dataset when it is whole, as that of `convert` does; killed at
any moment, the same call again does the rest. Then copies in the cache folder are removed.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import sync_folder, user_cache, write_atomically
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.signatures import checks_arguments
from tokenmill.conversion.convert import new_folder
from tokenmill.errors import FormatError
from tokenmill.forgetting.chosen_documents import Chosen, chosen_by_ids, chosen_by_sql
from tokenmill.shards.forgotten import FILE_NAME, Forgotten
from tokenmill.shards.manifest import PREPARATION_FOLDER, FileEntry, Manifest


@dataclass(frozen=True)
class Certificate:
    """What was forgotten, now or before; `path` is the certificate of all of it."""

    path: str
    documents: Chosen
    """The documents that were asked for: their ids by split and number."""
    num_tokens: int
    """Tokens that were overwritten by this call."""
    num_new: int
    """Documents of these that were not forgotten before."""
    runs: list[dict[str, Any]]
    num_cached: int
    """Files that were removed from the cache folder."""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenmill forget --json`."""
        return dict(vars(self))


@checks_arguments
def forget(
    path: str | os.PathLike[str],
    *,
    ids: str | os.PathLike[str] | Sequence[str] | None = None,
    where: str | None = None,
    runs: Sequence[str] = (),
    cache_dir: str | os.PathLike[str] | None = None,
) -> Certificate:
    """Overwrite documents of a tokenmill dataset with end-of-text ids that are no targets.

    `ids` is a file with an id per line, or the lines; `where` is SQL over the facts. Facts are
    emptied but for the id. Every other token keeps its place: runs resume, with the same order. For
    each folder in `runs`, the certificate says which steps and checkpoints had trained on them.
    """
    if (ids is None) == (where is None):
        raise ValueError("name the documents to forget, by ids or by where")
    if is_remote(path):
        raise ValueError(
            f"{path} is in a store, whose versions and copies nobody here can overwrite"
            "\n\nhint: bring it to a disk, forget there, upload it, and remove the old version"
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
        chosen = _choose(target, manifest, record, ids, where)
        keys = {key for documents in chosen.values() for key in documents.values()}
        trained = _trained(runs, keys)
        fresh = _fresh(record, chosen)
        num_tokens = sum(map(_count, record.ranges.values()))
        if any(fresh.values()):
            _write(target, new, manifest, record, fresh, trained)
        num_tokens = sum(map(_count, record.ranges.values())) - num_tokens
    num_cached = _remove_cached(record, Path(cache_dir) if cache_dir else user_cache("shards"))
    num_new = sum(map(len, fresh.values()))
    return Certificate(
        str(Path(path) / FILE_NAME), chosen, num_tokens, num_new, trained, num_cached
    )


def _choose(
    folder: Path, manifest: Manifest, record: Forgotten, ids: Any, where: str | None
) -> Chosen:
    if where is not None:
        chosen = chosen_by_sql(folder, manifest, where)
    else:
        lines = ids if isinstance(ids, list | tuple) else Path(ids).read_text("utf-8").splitlines()
        chosen = chosen_by_ids(folder, manifest, record, lines)
    if not any(chosen.values()):
        raise FormatError(
            f"no document of {folder} is chosen by {where or 'these ids'}",
            hint="what was forgotten has no facts but its id, and is found by that alone",
        )
    return {split: documents for split, documents in chosen.items() if documents}


def _trained(runs: Sequence[str], ids: set[str]) -> list[dict[str, Any]]:
    if not runs:
        return []
    from tokenmill.forgetting.trained_runs import trained_run

    return [trained_run(run, ids) for run in runs]


def _fresh(record: Forgotten, chosen: Chosen) -> Chosen:
    """Return the documents that are not forgotten yet."""
    fresh = {}
    for split, documents in chosen.items():
        known = record.documents(split)
        fresh[split] = {n: key for n, key in documents.items() if n not in known}
    return fresh


def _count(ranges: list[list[int]]) -> int:
    return sum(stop - start for start, stop in ranges)


def _write(
    old: Path,
    new: Path,
    manifest: Manifest,
    record: Forgotten,
    fresh: Chosen,
    runs: list[dict[str, Any]],
) -> None:
    """Write the whole dataset into `new`; the manifest last."""
    from tokenmill.forgetting.overwritten_files import Overwriting

    overwriting = Overwriting(old, new, manifest, record)
    splits = overwriting.write(fresh)
    documents = {
        split: [{"document": n, "id": key} for n, key in sorted(entries.items())]
        for split, entries in fresh.items()
        if entries
    }
    about = {"documents": documents, "manifest": manifest.digest}
    record.forgotten.append({**about, "files": overwriting.files, "runs": runs})
    data = record.to_bytes()
    write_atomically(new / FILE_NAME, data)
    named = FileEntry(FILE_NAME, len(data), xxhash.xxh3_128_hexdigest(data))
    replace(manifest, splits=splits, forgotten=named).write(new)
    for folder in [new, *filter(Path.is_dir, new.rglob("*"))]:
        sync_folder(folder)


def _remove_cached(record: Forgotten, cache: Path) -> int:
    """Remove the copies of files that were written again, which are named by their hashes."""
    before = [file["before"] for time in record.forgotten for file in time["files"]]
    paths = [path for name in before if name for path in cache.glob(f"{name}[.-]*")]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)
