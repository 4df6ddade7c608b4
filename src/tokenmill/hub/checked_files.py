"""What was checked before, so that it is neither read nor fetched again.

In `.tokenmill/hub/` inside the folder of the download:

  files/PATH.json                 one file that was checked: its hash, size and time of change
  OWNER--NAME/refs/REVISION       the commit that a revision named when all its files were here
  OWNER--NAME/COMMIT.json         all files of that commit; a commit never changes
  partial/                        files that are not complete yet

A file counts as right while its size and time of change are those of the check; otherwise it is
hashed again (about 1 GB/s), which is still cheaper than fetching it. One record a file, each put in
place by a rename, so that several processes may download into one folder.
"""

import errno
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tokenmill.base.atomic import is_temporary, new_file
from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import OUR_FOLDER, HubFile

_MAX_RECORD_BYTES = 256 << 20


class CheckedFiles:
    """The records of one folder and one repository."""

    def __init__(self, folder: Path, repo_id: str) -> None:
        self.folder, self.repo_id = folder, repo_id
        self._home = folder / OUR_FOLDER / "hub"
        self._repo = self._home / repo_id.replace("/", "--")
        self.partials = self._home / "partial"

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
        """Whether the file is here and right; with `read`, it is hashed in any case."""
        path = self.target(file)
        try:
            now = self._state(file)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if now["bytes"] != file.num_bytes:
            return False
        if not read and _read(self._record(file)).items() >= now.items():
            return True
        if file.digest_of(path) != file.digest:
            return False
        self.note(file)
        return True

    def is_ours(self, file: HubFile) -> bool:
        """Whether what is under this name came from a download of this repository."""
        return _read(self._record(file)).get("repo") == self.repo_id

    def note(self, file: HubFile) -> None:
        _write_json(self._record(file), {"repo": self.repo_id, **self._state(file)})

    def commit_of(self, revision: str) -> str:
        """The commit that this revision named when everything asked for was here, or ""."""
        try:
            return self._ref(revision).read_text(errors="replace").strip()
        except OSError:
            return ""

    def note_commit(self, revision: str, commit: str) -> None:
        if self.commit_of(revision) != commit:
            _write(self._ref(revision), commit)

    def files_of(self, commit: str) -> list[HubFile]:
        """All files of a commit, if they were listed before."""
        known = _read(self._repo / f"{commit}.json")
        try:
            files = [
                HubFile(each["path"], each["bytes"], each["digest"]) for each in known["files"]
            ]
        except (KeyError, TypeError):
            return []
        return files if all(file.is_sound() for file in files) else []

    def note_files(self, commit: str, files: list[HubFile]) -> None:
        path = self._repo / f"{commit}.json"
        if not path.exists():
            _write_json(path, {"repo": self.repo_id, "files": [file.to_json() for file in files]})

    def remove_leftovers(self, older_than: float) -> None:
        """Remove records that a killed process left half written, so many seconds ago."""
        for path in self._home.rglob(".*.tmp"):
            with suppress(FileNotFoundError):
                if is_temporary(path.name) and time.time() - path.stat().st_mtime > older_than:
                    path.unlink()

    def _ref(self, revision: str) -> Path:
        return self._repo / "refs" / quote(revision, safe="")

    def _record(self, file: HubFile) -> Path:
        return self._home / "files" / f"{file.path}.json"

    def _state(self, file: HubFile) -> dict[str, Any]:
        state = self.target(file).stat()
        return {"digest": file.digest, "bytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def origins(folder: Path) -> list[dict[str, str]]:
    """The repositories, revisions and commits that a folder was downloaded from."""
    found = []
    for path in sorted((folder / OUR_FOLDER / "hub").glob("*--*/refs/*")):
        if is_temporary(path.name):
            continue
        commit = path.read_text(encoding="utf-8", errors="replace").strip()[:40]
        repo = path.parent.parent.name.replace("--", "/", 1)
        found.append({"repo": repo, "revision": unquote(path.name), "commit": commit})
    return found


def _read(path: Path) -> dict[str, Any]:
    """A record; one that is missing or not readable as such counts as empty."""
    try:
        if path.stat().st_size > _MAX_RECORD_BYTES:
            return {}
        known = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    _write(path, json.dumps(value, indent=1))


def _write(path: Path, text: str) -> None:
    """Put a record in place. A folder that may only be read does without."""
    try:
        with new_file(path, durable=True) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise
