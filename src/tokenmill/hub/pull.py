"""Fetch token shards from the Hugging Face hub: a download step by step.

  1. ask the hub which commit the revision names, and which files with which hashes are in it
  2. choose: the first training shards, a whole tokenmill dataset, or what matches the patterns
  3. keep what is here and right
  4. fetch the rest in parallel; a file gets its name when size and hash are right, never before
  5. record the commit

Without a network, or with HF_HUB_OFFLINE=1, steps 1 to 3 use what was recorded.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import rename_durably
from tokenmill.base.human import plural
from tokenmill.base.progress import open_progress
from tokenmill.base.retry import Retry, RetryClock
from tokenmill.errors import DownloadError
from tokenmill.hub.checked_files import CheckedFiles
from tokenmill.hub.fetch import Fetcher
from tokenmill.hub.hub_client import Hub, Unreachable, is_offline
from tokenmill.hub.partial import PartialFile
from tokenmill.hub.remote_files import DEFAULT_REPO, HubFile, choose
from tokenmill.hub.transfers import Transfers, in_parallel
from tokenmill.shards.manifest import FILE_NAME as MANIFEST

DEFAULT_FOLDER = "/tmp/data"
OLD = 86_400.0  # seconds after which what a killed download left is of no use


@dataclass(frozen=True)
class Download:
    """What a download did, or, with `dry_run`, would do."""

    folder: str
    repo_id: str
    revision: str
    commit: str
    fetched: list[HubFile]
    """Fetched now."""
    kept: list[HubFile]
    """Already here, and right."""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        files = {name: [f.to_json() for f in getattr(self, name)] for name in ("fetched", "kept")}
        return {**asdict(self), **files}


def download(
    repo_id: str = DEFAULT_REPO,
    folder: str | os.PathLike[str] | None = None,
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
    """Fetch token shards from the hub; return the folder, and what was fetched and what was here.

    Without arguments: the first 3 training shards of FineWeb-Edu in GPT-2 tokens (200 MB each) into
    /tmp/data/fineweb-edu. They are all training shards: `tokenmill.open(folder, split="val")` holds
    out the last. For another repository the folder is /tmp/data/NAME.

    `shards` is the number of training shards, 3 by default; `patterns` choose files by name instead
    (`["*_val_*.bin"]`). `force` reads again what is here and replaces what differs; `dry_run` only
    says what would be fetched.
    """
    for name, count in (("workers", workers), ("shards", shards)):
        if count is not None and count < 1:
            raise ValueError(f"{name} is {count}; it must be 1 or more")
    if isinstance(patterns, str):
        raise TypeError(f"patterns is the text {patterns!r}; it must be a list of texts")
    folder = Path(folder if folder is not None else default_folder(repo_id))
    clock = RetryClock(retry or Retry())
    hub = Hub(repo_id, revision, clock=clock, token=token)
    checked = CheckedFiles(folder, repo_id)
    shown = open_progress(quiet=progress is False)

    commit, files = _list(hub, checked, shown.say)
    chosen = choose(files, shards=shards, patterns=patterns, where=str(hub))
    kept = [file for file in chosen if checked.holds(file, read=force)]
    missing = [file for file in chosen if file not in set(kept)]
    result = Download(str(folder), repo_id, revision, commit, missing, kept)
    if dry_run:
        return result
    if missing:
        _refuse_offline(hub, missing)
        _refuse_foreign(checked, missing, force)
        _check_space(folder, missing)
        with shown:
            transfers = Transfers(shown, missing)
            fetcher = Fetcher(hub, commit, checked.partials, clock, transfers)
            _fetch_all(fetcher, checked, missing, workers)
        checked.remove_leftovers(OLD)
    checked.note_commit(revision, commit, files)
    return result


def default_folder(repo_id: str) -> str:
    """The folder of a repository when none is named."""
    name = "fineweb-edu" if repo_id == DEFAULT_REPO else repo_id.rpartition("/")[2]
    return f"{DEFAULT_FOLDER}/{name}"


def _list(hub: Hub, checked: CheckedFiles, say: Callable[[str], None]) -> tuple[str, list[HubFile]]:
    """The commit and its files, from the hub, or else as they were recorded."""
    recorded, files = checked.commit_of(hub.revision)
    if recorded == hub.revision:  # a commit never changes
        return recorded, files
    try:
        commit = hub.commit()
        return commit, files if commit == recorded else hub.files(commit)
    except Unreachable as reason:
        if not files:
            raise
        say(f"{reason.message}; using what is here, of commit {recorded[:12]}")
        return recorded, files


def _fetch_all(fetcher: Fetcher, checked: CheckedFiles, files: list[HubFile], workers: int) -> None:
    """Fetch in parallel; the first failure stops the rest, which the next run resumes."""
    held: list[PartialFile] = []

    def fetch_one(file: HubFile) -> None:
        partial = fetcher.fetch(file)
        # What replaces an older version, and a manifest, waits until the others are here.
        if checked.target(file).exists() or file.path == MANIFEST:
            held.append(partial)
        else:
            _publish(checked, partial)
        fetcher.transfers.end(file)

    in_parallel(fetch_one, files, workers, fetcher.clock)
    for partial in sorted(held, key=lambda partial: partial.file.path == MANIFEST):
        _publish(checked, partial)


def _publish(checked: CheckedFiles, partial: PartialFile) -> None:
    target = checked.target(partial.file)
    target.parent.mkdir(parents=True, exist_ok=True)
    rename_durably(partial.path, target)
    checked.note(partial.file)


def _refuse_offline(hub: Hub, missing: list[HubFile]) -> None:
    if is_offline():
        names = ", ".join(file.path for file in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise DownloadError(
            f"{hub}: {names}{more} not here, and HF_HUB_OFFLINE is set",
            hint="unset HF_HUB_OFFLINE",
        )


def _refuse_foreign(checked: CheckedFiles, files: list[HubFile], force: bool) -> None:
    """Never overwrite a file that did not come from here."""
    for file in files:
        path = checked.target(file)
        if path.is_dir():
            raise DownloadError(f"{path} is a folder; the repository has a file of that name")
        if path.exists() and not force and not checked.is_ours(file):
            raise DownloadError(
                f"{path} is here already, and is not {file.path} of {checked.repo_id} "
                f"({path.stat().st_size:,} bytes, expected {file.num_bytes:,} with {file.digest})",
                hint="move it away, use another folder, or replace it with force=True",
            )


def _check_space(folder: Path, files: list[HubFile]) -> None:
    """Fail before the first byte rather than at the last."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = sum(file.num_bytes for file in files)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{plural(len(files), 'file')} of {needed:,} bytes in all; {folder} has {free:,} free",
            hint="choose fewer with shards=, or another folder",
        )
