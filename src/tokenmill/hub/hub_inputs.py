"""Files of a dataset repository as inputs: hf://datasets/OWNER/NAME[@REVISION]/GLOB.

They are read by range, and nothing is kept. A revision is resolved once: the addresses of a plan,
and the names in a manifest, have the commit in them, so what they name never changes.
"""

import functools
import re
import urllib.parse
from concurrent.futures import Future
from pathlib import Path

import orjson

from tokenmill.base.atomic import keep
from tokenmill.base.retry import Retry, RetryClock
from tokenmill.hub.hub_client import Hub
from tokenmill.stores import object_file
from tokenmill.stores.objects import glob_pattern
from tokenmill.stores.store_client import begin
from tokenmill.stores.store_requests import ObjectStat, Part

_FORM = re.compile(
    r"hf://datasets/([^/@]+/[^/@]+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.*))?", re.DOTALL
)
sizes: dict[str, int] = {}  # of files by address, as far as they are known


def split(address: str) -> tuple[str, str, str]:
    """Return repository, revision and path."""
    if not (form := _FORM.fullmatch(address)):
        raise ValueError(
            f"{address[:80]!r} is not an address on the hub; write it like "
            "hf://datasets/OWNER/NAME/data/*.parquet, or hf://datasets/OWNER/NAME@REVISION/..."
        )
    repo_id, revision, path = form.groups()
    return repo_id, urllib.parse.unquote(revision or "main"), path or ""


def pin(address: str, record: Path | None = None) -> str:
    """Return the address with a commit: that of now, or in `record`, of when a run was started."""
    repo_id, revision, path = split(address)
    commits = orjson.loads(record.read_bytes()) if record and record.exists() else {}
    asked = f"{repo_id}@{revision}"
    if not re.fullmatch("[0-9a-f]{40}", revision):
        revision = commits.get(asked) or _hub(repo_id, revision).commit()
    if record:
        keep(record, orjson.dumps({**commits, asked: revision}))
    return f"hf://datasets/{repo_id}@{revision}/{path}".rstrip("/")


@functools.lru_cache
def _hub(repo_id: str, revision: str) -> Hub:
    return Hub(repo_id, revision, clock=RetryClock(Retry()))


@functools.lru_cache
def _list(repo_id: str, commit: str) -> list[str]:
    root = f"hf://datasets/{repo_id}@{commit}"
    about = ("README.md", "dataset_infos.json")  # they are no data
    files = [file for file in _hub(repo_id, commit).files(commit) if file.num_bytes]
    sizes.update({f"{root}/{file.path}": file.num_bytes for file in files})
    return [f"{root}/{file.path}" for file in files if file.path not in about]


def list_below(address: str) -> list[str]:
    """Return the addresses of all files below an address."""
    return [path for path in _list(*split(address)[:2]) if path.startswith(f"{address}/")]


def list_matching(address: str) -> list[str]:
    """Return the addresses of the files that a glob means."""
    matches = glob_pattern(address)
    return [path for path in _list(*split(address)[:2]) if matches.fullmatch(path)]


find = list_matching  # a file matches its own address


def stat(address: str) -> ObjectStat:
    """Return the size; a file of a commit has no other version, so that is all."""
    if address not in sizes:
        _read(address, 0, 1)
    return ObjectStat(sizes[address], "")


def read_range(address: str, start: int, stop: int) -> bytes:
    """Return the bytes start..stop of a file; fewer only where it ends."""
    stop = min(stop, stat(address).size)
    return _read(address, start, stop)[0] if start < stop else b""


def _read(address: str, start: int, stop: int) -> Part:
    repo_id, commit, path = split(address)
    hub = _hub(repo_id, commit)
    data, sizes[address] = hub.ask(hub.read, path, commit, start, stop, about=address)
    return data, stat(address)


# The end of a file has the footer of parquet, which is read again for each of its units.
_read_end = functools.lru_cache(maxsize=4)(_read)


class ObjectFile(object_file.ObjectFile):
    """A file on the hub; it is farther away than a store, so more of it is asked for ahead."""

    blocks_ahead = 3
    _stat = staticmethod(stat)

    def fetch(self, start: int, stop: int) -> "Future[Part]":
        read = _read_end if stop == stat(self.address).size else _read
        return begin(functools.partial(read, self.address, start, stop), "read", self.address)
