"""Files of a dataset repository as inputs: hf://datasets/OWNER/NAME[@REVISION]/GLOB.

They are read by range, and nothing is kept. A revision is resolved once: the addresses of a plan,
and the names in a manifest, have the commit in them, so what they name never changes.
"""

import functools
import re
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tokenmill.base.address import is_hub
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
_COMMIT = re.compile("[0-9a-f]{40}")
_ABOUT_THE_DATA = ("README.md", "dataset_infos.json")
_sizes: dict[str, int] = {}
"""Sizes of files by address, as far as they are known; a commit never changes."""


class HubAddress(NamedTuple):
    """Where a file is, or several."""

    repo_id: str
    revision: str
    path: str

    @property
    def root(self) -> str:
        return f"hf://datasets/{self.repo_id}@{urllib.parse.quote(self.revision, safe='')}"


def split(address: str) -> HubAddress:
    """Return repository, revision and path."""
    if not (form := _FORM.fullmatch(address)):
        raise ValueError(
            f"{address[:80]!r} is not an address on the hub; write it like "
            "hf://datasets/OWNER/NAME/data/*.parquet, or hf://datasets/OWNER/NAME@REVISION/..."
        )
    repo_id, revision, path = form.groups()
    return HubAddress(repo_id, urllib.parse.unquote(revision or "main"), (path or "").rstrip("/"))


def pin_all(inputs: Sequence[Any], record: Path) -> list[Any]:
    """Return the inputs with commits instead of revisions.

    `record` has the commits that a preparation found at first: one that resumes keeps to them.
    """
    commits: dict[str, str] = orjson.loads(record.read_bytes()) if record.exists() else {}
    pinned = []
    for entry in inputs:
        if is_hub(entry):
            asked = split(entry)
            if asked.root not in commits:
                commits[asked.root] = split(pin(entry)).revision
            entry = _at(asked, commits[asked.root])
        pinned.append(entry)
    keep(record, orjson.dumps(commits))
    return pinned


def pin(address: str) -> str:
    """Return the address with the commit that its revision names now."""
    asked = split(address)
    if _COMMIT.fullmatch(asked.revision):
        return _at(asked, asked.revision)
    return _at(asked, _hub(asked.repo_id, asked.revision).commit())


def _at(asked: HubAddress, commit: str) -> str:
    return "/".join(filter(None, [asked._replace(revision=commit).root, asked.path]))


@functools.lru_cache
def _hub(repo_id: str, revision: str) -> Hub:
    return Hub(repo_id, revision, clock=RetryClock(Retry()))


def find(address: str) -> str | None:
    """Return the address if it is that of a file."""
    return address if address in list_below(split(address)._replace(path="").root) else None


@functools.lru_cache
def _list(repo_id: str, commit: str) -> list[str]:
    root = HubAddress(repo_id, commit, "").root
    files = _hub(repo_id, commit).files(commit)
    _sizes.update({f"{root}/{file.path}": file.num_bytes for file in files})
    names = [file.path for file in files if file.num_bytes]
    return [f"{root}/{name}" for name in names if name not in _ABOUT_THE_DATA]


def list_below(address: str) -> list[str]:
    """Return the addresses of all files below an address; not those about the data."""
    asked = split(address)
    return [path for path in _list(asked.repo_id, asked.revision) if path.startswith(f"{address}/")]


def list_matching(address: str) -> list[str]:
    """Return the addresses of the files that a glob means."""
    matches = glob_pattern(address)
    asked = split(address)
    return [path for path in _list(asked.repo_id, asked.revision) if matches.fullmatch(path)]


def stat(address: str) -> ObjectStat:
    """Return the size; a file of a commit has no other version, so that is all."""
    if address not in _sizes:
        _read(address, 0, 1)
    return ObjectStat(_sizes[address], "")


def read_range(address: str, start: int, stop: int) -> bytes:
    """Return the bytes start..stop of a file; fewer only where it ends."""
    stop = min(stop, stat(address).size)
    return _read(address, start, stop)[0] if start < stop else b""


def _read(address: str, start: int, stop: int) -> Part:
    asked = split(address)
    hub = _hub(asked.repo_id, asked.revision)
    data, _sizes[address] = hub.read(asked.path, asked.revision, start, stop)
    return data, stat(address)


_read_end = functools.lru_cache(maxsize=4)(_read)
"""The same for the end of a file, where the footer of parquet is: all of its units need it."""


class ObjectFile(object_file.ObjectFile):
    """A file on the hub; it is farther away than a store, so more of it is asked for ahead."""

    blocks_ahead = 3

    def stat(self, address: str) -> ObjectStat:
        return stat(address)

    def fetch(self, start: int, stop: int) -> "Future[Part]":
        read = _read_end if stop == stat(self.address).size else _read
        return begin(functools.partial(read, self.address, start, stop), "read", self.address)
