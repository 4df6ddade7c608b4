"""Records of what was checked before, so that it is neither read nor fetched again.

In `.tokenmill/hub/` inside the folder of the download, each put in place by a rename:

  files/PATH.json             a file that was checked: its hash, size and time of change; while both
                              stay, it is not hashed again (about 1 GB/s)
  OWNER--NAME/REVISION.json   the commit that a revision named at the last download, and its files
  partial/                    files that are not published: complete, or under a temporary name
"""

import errno
import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tokenmill.base.atomic import is_temporary, make_folder, rename_durably, write_atomically
from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import OUR_FOLDER, HubFile


class CheckedFiles:
    """The records of one folder and one repository."""

    def __init__(self, folder: Path, repo_id: str) -> None:
        self.folder = folder
        self.repo_id = repo_id
        self._home = folder / OUR_FOLDER / "hub"
        self._partials = self._home / "partial"

    def target(self, file: HubFile) -> Path:
        """The final name of a file; refuses one that leads out of the folder through a link."""
        path = self.folder / file.path
        if path.is_symlink() or not path.parent.resolve().is_relative_to(self.folder.resolve()):
            raise DownloadError(
                f"{path} is a symbolic link, or is reached through one",
                hint="remove the link, or use another folder",
            )
        return path

    def holds(self, file: HubFile, *, read: bool = False) -> bool:
        """Return True if the file is here and right; with `read`, it is hashed in any case."""
        with suppress(FileNotFoundError, NotADirectoryError):
            is_recorded = _read(self._record(file)).items() >= self._state(file).items()
            if is_recorded and not read:
                return True
        if not file.is_at(self.target(file)):
            return False
        self._note(file)
        return True

    def staged(self, file: HubFile) -> Path:
        """Where a complete file waits for its final name."""
        name = hashlib.sha256(f"{file.digest} {file.path}".encode()).hexdigest()
        return self._partials / name

    def publish(self, file: HubFile) -> None:
        """Give a staged file its final name, unless another process was faster."""
        target = self.target(file)
        make_folder(target.parent)
        try:
            rename_durably(self.staged(file), target)
            self._note(file)
        except FileNotFoundError:
            if not self.holds(file):
                raise

    def is_ours(self, file: HubFile) -> bool:
        """Return True if what is under this name came from a download of this repository."""
        return _read(self._record(file)).get("repo") == self.repo_id

    def _note(self, file: HubFile) -> None:
        _write(self._record(file), {"repo": self.repo_id, **self._state(file)})

    def commit_of(self, revision: str) -> tuple[str, list[HubFile]]:
        """The commit that a revision named, and its files; ("", []) where nothing is recorded."""
        record = _read(self._commit_record(revision))
        try:
            files = [HubFile(f["path"], f["bytes"], f["digest"]) for f in record["files"]]
            return str(record["commit"]), files
        except (KeyError, TypeError, ValueError):
            return "", []

    def note_commit(self, revision: str, commit: str, files: list[HubFile]) -> None:
        """Record the commit that a revision names, and its files."""
        if self.commit_of(revision)[0] != commit:
            record = {"commit": commit, "files": [file.to_json() for file in files]}
            _write(self._commit_record(revision), record)

    def remove_leftovers(self, older_than: float) -> None:
        """Remove what killed processes left and nobody wrote to for this many seconds."""
        for path in self._home.rglob("*"):
            with suppress(FileNotFoundError):
                is_leftover = path.parent == self._partials or is_temporary(path.name)
                if is_leftover and time.time() - path.stat().st_mtime > older_than:
                    path.unlink()

    def _commit_record(self, revision: str) -> Path:
        return self._home / self.repo_id.replace("/", "--") / f"{quote(revision, safe='')}.json"

    def _record(self, file: HubFile) -> Path:
        return self._home / "files" / f"{file.path}.json"

    def _state(self, file: HubFile) -> dict[str, Any]:
        state = self.target(file).stat()
        return {"digest": file.digest, "bytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def origins(folder: Path) -> list[dict[str, str]]:
    """The repositories, revisions and commits that a folder was downloaded from."""
    return [
        {
            "repo": path.parent.name.replace("--", "/", 1),
            "revision": unquote(path.stem),
            "commit": str(_read(path).get("commit"))[:40],
        }
        for path in sorted((folder / OUR_FOLDER / "hub").glob("*--*/*.json"))
    ]


def _read(path: Path) -> dict[str, Any]:
    """A record; one that is missing or cannot be read as such counts as empty."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _write(path: Path, record: dict[str, Any]) -> None:
    """Put a record in place. A folder that may only be read does without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{json.dumps(record, indent=1)}\n".encode())
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise
