"""Fetch token shards from the Hugging Face hub. docs/guides/hub.md says what is promised.

Without a network, or with HF_HUB_OFFLINE=1, the list of files is the one that was recorded.
"""

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import make_folder
from tokenmill.base.daemon_threads import DaemonThreads
from tokenmill.base.human import human_bytes, plural
from tokenmill.base.progress import Progress, open_progress
from tokenmill.base.retry import Retry, RetryClock
from tokenmill.base.signatures import checks_arguments
from tokenmill.base.suggest import check_at_least_one, one_of
from tokenmill.errors import DownloadError
from tokenmill.hub.checked_files import CheckedFiles
from tokenmill.hub.hub_client import Hub, Unreachable
from tokenmill.hub.remote_files import DEFAULT_REPO, HubFile, choose
from tokenmill.shards.manifest import FILE_NAME as MANIFEST

DEFAULT_FOLDER = "/tmp/data"
OLD = 86_400.0  # seconds after which what a killed download left is of no use
SECONDS_TO_STOP = 2.0  # for all threads together


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


@checks_arguments
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
    repo_type: str = "dataset",
) -> Download:
    """Fetch token shards from the hub; return the folder, and what was fetched and what was here.

    Without arguments: the first 3 training shards of FineWeb-Edu in GPT-2 tokens (200 MB each) into
    /tmp/data/fineweb-edu. They are all training shards: `tokenmill.open(folder, split="val")` holds
    out the last. For another repository the folder is /tmp/data/NAME.

    `shards` is the number of training shards, 3 by default; `patterns` choose files by name instead
    (`["*_val_*.bin"]`). `force` reads again what is here and replaces what differs; `dry_run` only
    says what would be fetched. `repo_type="model"` fetches files of a model.
    """
    one_of("repo_type", repo_type, ("dataset", "model"))
    check_at_least_one(workers=workers, shards=1 if shards is None else shards)
    folder = Path(folder if folder is not None else default_folder(repo_id))
    shown = open_progress(quiet=progress is False)
    clock = RetryClock(retry or Retry())
    hub = Hub(repo_id, revision, clock=clock, token=token, kind=repo_type, say=shown.say)
    checked = CheckedFiles(folder, repo_id)

    commit, files = _list(hub, checked, shown.say)
    chosen = choose(files, shards=shards, patterns=patterns, where=str(hub))
    kept = [file for file in chosen if checked.holds(file, read=force)]
    missing = [file for file in chosen if file not in set(kept)]
    result = Download(str(folder), repo_id, revision, commit, missing, kept)
    if dry_run:
        return result
    if missing:
        _refuse_foreign(checked, missing, force)
        _check_space(folder, missing)
        with shown:
            _fetch_all(hub, commit, checked, missing, workers, shown)
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


def _fetch_all(
    hub: Hub,
    commit: str,
    checked: CheckedFiles,
    files: list[HubFile],
    workers: int,
    shown: Progress,
) -> None:
    """Fetch in parallel; what the first failure stops is left to the next run."""
    num_bytes = sum(file.num_bytes for file in files)
    shown.say(f"fetching {plural(len(files), 'file')}, {human_bytes(num_bytes)}")
    meter = shown.begin("files", num_bytes, in_bytes=True)
    lock = threading.Lock()
    arrived: list[HubFile] = []
    held: list[HubFile] = []

    def advance(more: int) -> None:
        with lock:
            meter.advance(more)

    def fetch_one(file: HubFile) -> None:
        staged = checked.staged(file)
        if not file.is_at(staged):
            hub.fetch(file, commit, staged, advance)
        # What replaces an older version, and a manifest, waits until the others are here.
        if checked.target(file).exists() or file.path == MANIFEST:
            held.append(file)
        else:
            checked.publish(file)
        arrived.append(file)
        count = f"[{len(arrived)}/{len(files)}]"
        shown.say(f"{count} {file.path}  {human_bytes(file.num_bytes)}, hash checked")

    _in_parallel(fetch_one, files, workers, hub.clock)
    for file in sorted(held, key=lambda file: file.path == MANIFEST):
        checked.publish(file)


def _in_parallel(
    work: Callable[[HubFile], None], files: list[HubFile], workers: int, clock: RetryClock
) -> None:
    """Do the work for every file; the first failure, or Ctrl-C, stops all and is raised."""
    threads = DaemonThreads(workers, "tokenmill-download")
    tasks = [threads.submit(partial(work, file)) for file in files]
    try:
        for task in as_completed(tasks):
            task.result()
    except BaseException:
        clock.stop()
        for task in tasks:
            task.cancel()
        wait(tasks, SECONDS_TO_STOP)
        raise


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
    make_folder(folder)
    needed = sum(file.num_bytes for file in files)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{plural(len(files), 'file')} of {needed:,} bytes in all; {folder} has {free:,} free",
            hint="choose fewer with shards=, or another folder",
        )
