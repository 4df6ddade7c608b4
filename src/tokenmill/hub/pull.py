"""Fetch token shards from the Hugging Face hub: the way of a download, told once.

  1. ask the hub which commit the revision names, and which files with which hashes are in it
  2. choose: the first training shards, a whole dataset of ours, or what matches the patterns
  3. leave alone what is here and right
  4. fetch the rest in parallel; a file gets its name when size and hash are right, never before
  5. write down the commit

Without a network, or with HF_HUB_OFFLINE=1, steps 1 to 3 use what was written down.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.progress import open_progress
from tokenmill.base.retry import Retry, RetryClock
from tokenmill.errors import DownloadError
from tokenmill.hub.checked_files import Record
from tokenmill.hub.fetch import fetch
from tokenmill.hub.hub_client import Hub, Unreachable, is_offline
from tokenmill.hub.partial import Partial, orphans
from tokenmill.hub.remote_files import DEFAULT_REPO, MANIFEST, RemoteFile, choose
from tokenmill.hub.transfers import Transfers, in_parallel

DEFAULT_FOLDER = "/tmp/data"


@dataclass(frozen=True)
class Download:
    """What a download did, or, with `dry_run`, would do."""

    folder: str
    repo_id: str
    revision: str
    commit: str
    fetched: list[RemoteFile]
    """Fetched now."""
    kept: list[RemoteFile]
    """Already here, and right."""

    @property
    def num_bytes_fetched(self) -> int:
        """Bytes of the files that were fetched."""
        return sum(file.bytes for file in self.fetched)

    def as_dict(self) -> dict[str, Any]:
        """The same in plain types."""
        return asdict(self)


def download_tokenized_data(
    data_dir: str | os.PathLike[str] | None = None,
    repo_id: str = DEFAULT_REPO,
    *,
    shards: int | None = None,
    patterns: Sequence[str] | None = None,
    revision: str = "main",
    workers: int = 4,
    token: str | bool | None = None,
    retry: Retry | None = None,
    force: bool = False,
    progress: bool | None = None,
) -> str:
    """Fetch token shards from the hub and return the folder they are in.

    Without arguments: the first 3 training shards of FineWeb-Edu in GPT-2 tokens (200 MB each) into
    /tmp/data/fineweb-edu. They are all training shards: `tokenmill.open(folder, split="val")` holds
    out the last. For another repository the folder is /tmp/data/NAME.

    `shards` is the number of training shards, 3 by default; `patterns` choose files by name instead
    (`["*_val_*.bin"]`). `force` reads again what is here and replaces what differs.
    """
    done = download(
        data_dir,
        repo_id,
        shards=shards,
        patterns=patterns,
        revision=revision,
        workers=workers,
        token=token,
        retry=retry,
        force=force,
        progress=progress,
    )
    return done.folder


def download(
    data_dir: str | os.PathLike[str] | None = None,
    repo_id: str = DEFAULT_REPO,
    *,
    shards: int | None = None,
    patterns: Sequence[str] | None = None,
    revision: str = "main",
    workers: int = 4,
    token: str | bool | None = None,
    retry: Retry | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
) -> Download:
    """The same as `download_tokenized_data`, returning what was fetched and what was here."""
    if workers < 1:
        raise ValueError(f"workers is {workers}; it must be 1 or more")
    if shards is not None and shards < 1:
        raise ValueError(f"shards is {shards}; it must be 1 or more")
    if isinstance(patterns, str):
        raise TypeError(f"patterns is the text {patterns!r}; it must be a list of texts")
    folder = Path(data_dir if data_dir is not None else default_folder(repo_id))
    clock = RetryClock(retry or Retry())
    hub = Hub(repo_id, revision, clock=clock, token=token)
    record = Record(folder, repo_id)
    shown = open_progress(quiet=progress is False)

    commit, files = _list(hub, record, shown.say)
    chosen = choose(files, shards=shards, patterns=patterns, where=str(hub))
    kept = [file for file in chosen if record.holds(file, read=force)]
    missing = [file for file in chosen if file not in set(kept)]
    result = Download(str(folder), repo_id, revision, commit, missing, kept)
    if dry_run:
        return result
    record.note_files(commit, files)
    if missing:
        if is_offline():
            raise _not_all_here(hub, missing, "HF_HUB_OFFLINE is set")
        _refuse_foreign(record, missing, force)
        _check_space(folder, missing)
        with shown:
            transfers = Transfers(shown, missing)
            _fetch_all(hub, record, missing, commit, workers, clock, transfers)
        _clean(record)
    record.note_commit(revision, commit)
    return result


def default_folder(repo_id: str) -> str:
    """Where a repository goes when no folder is named."""
    name = "fineweb-edu" if repo_id == DEFAULT_REPO else repo_id.rpartition("/")[2]
    return f"{DEFAULT_FOLDER}/{name}"


def _list(hub: Hub, record: Record, say: Callable[[str], None]) -> tuple[str, list[RemoteFile]]:
    """The commit and its files, from the hub, or else from what was written down."""
    is_commit = len(hub.revision) == 40 and not set(hub.revision) - set("0123456789abcdef")
    if is_commit and (known := record.files_of(hub.revision)) is not None:
        return hub.revision, known
    try:
        commit = hub.commit()
        files = record.files_of(commit)
        return commit, hub.files(commit) if files is None else files
    except Unreachable as reason:
        commit_then = record.commit_of(hub.revision)
        files = record.files_of(commit_then) if commit_then else None
        if commit_then is None or files is None:
            raise
        say(f"{reason.message}; using what is here, of commit {commit_then[:12]}")
        return commit_then, files


def _fetch_all(
    hub: Hub,
    record: Record,
    files: list[RemoteFile],
    commit: str,
    workers: int,
    clock: RetryClock,
    transfers: Transfers,
) -> None:
    """Fetch in parallel; the first failure stops the rest, which the next run resumes."""
    held: list[Partial] = []

    def fetch_one(file: RemoteFile) -> None:
        partial = fetch(hub, file, commit, record.partials, clock, transfers)
        # What replaces an older version, and a manifest, waits until the others are here.
        if record.target(file).exists() or file.path == MANIFEST:
            held.append(partial)
        else:
            _publish(record, partial)
        transfers.end(file)

    in_parallel(fetch_one, files, workers, clock)
    for partial in sorted(held, key=lambda partial: partial.file.path == MANIFEST):
        _publish(record, partial)


def _publish(record: Record, partial: Partial) -> None:
    partial.publish(record.target(partial.file))
    record.note(partial.file)


def _refuse_foreign(record: Record, files: list[RemoteFile], force: bool) -> None:
    """Never overwrite a file that did not come from here."""
    for file in files:
        path = record.target(file)
        if path.is_dir():
            raise DownloadError(f"{path} is a folder; the repository has a file of that name")
        if path.exists() and not force and not record.is_ours(file):
            raise DownloadError(
                f"{path} is here already, and is not {file.path} of {record.repo_id} "
                f"({path.stat().st_size:,} bytes, expected {file.bytes:,} with {file.digest})",
                hint="move it away, use another folder, or replace it with --force",
            )


def _check_space(folder: Path, files: list[RemoteFile]) -> None:
    """Fail before the first byte rather than at the last."""
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = sum(file.bytes for file in files), shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{len(files)} files need {needed:,} bytes; {folder} has {free:,} free",
            hint="choose fewer with --shards, or another folder",
        )


def _not_all_here(hub: Hub, missing: list[RemoteFile], why: str) -> DownloadError:
    names = ", ".join(file.path for file in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return DownloadError(f"{hub}: {names}{more} not here, and {why}", hint="unset HF_HUB_OFFLINE")


def _clean(record: Record) -> None:
    """Remove partial files that nobody came back for in a day."""
    for path in orphans(record.partials, untouched_for=86_400.0):
        path.unlink(missing_ok=True)
