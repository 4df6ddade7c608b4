"""One file from the hub: resume, retry, check, and only then its final name."""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.retry import RetryClock, Transient
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError
from tokenmill.hub.hub_client import Hub
from tokenmill.hub.partial import PartialFile
from tokenmill.hub.remote_files import HubFile
from tokenmill.hub.transfers import Transfers

_WRONG_CONTENT_TRIES = 2  # a file that arrived whole but wrong is fetched once more


@dataclass(frozen=True)
class Fetcher:
    """Brings files of one commit."""

    hub: Hub
    commit: str
    partials: Path
    """The folder of files that are not complete yet."""
    clock: RetryClock
    transfers: Transfers

    def fetch(self, file: HubFile) -> PartialFile:
        """Bring one file here: complete, checked and synced, but not under its final name yet."""
        partial = PartialFile(file, self.partials)
        self.transfers.skip(partial.size)
        try:
            self._fill(partial)
            partial.seal()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            partial.discard()
            raise DownloadError(
                f"{file.path} ({file.num_bytes:,} bytes): {os.strerror(error.errno)}",
                hint=f"free some space; {RESUME_HINT}",
            ) from None
        finally:
            partial.close()
        return partial

    def _fill(self, partial: PartialFile) -> None:
        """Read until the file is whole and right."""
        file = partial.file
        name = f"{file.path} of {self.hub} ({self.commit[:12]})"
        failures = wrong = 0
        furthest = partial.size  # only bytes that never came before are progress
        while True:
            try:
                if not partial.is_whole():
                    self._read_body(partial)
                if partial.is_right():
                    return
                if not partial.resumed_from:  # else the fault may be in what an earlier run left
                    wrong += 1
                if wrong == _WRONG_CONTENT_TRIES:
                    partial.discard()
                    raise DownloadError(
                        f"{name}: the bytes that arrived, twice, are not the ones the hub lists "
                        f"({file.digest})",
                        hint="nothing was kept; a proxy or a mirror may be changing the file",
                    )
                self._restart(partial)
            except Transient as reason:
                failures = 1 if partial.size > furthest else failures + 1
                furthest = max(furthest, partial.size)
                self.transfers.say(f"{file.path}: {reason}; trying again")
                self.clock.pause(name, failures, reason)

    def _restart(self, partial: PartialFile) -> None:
        self.transfers.skip(-partial.size)
        partial.restart()

    def _read_body(self, partial: PartialFile) -> None:
        """Read one answer to its end; Transient if it is not the rest of the file."""
        file = partial.file
        with self.hub.body(file, self.commit, partial.size) as answer:
            if partial.size and not _continues(answer, partial):
                # Not the range that was asked for: what is here may not be continued with it.
                self._restart(partial)
                if answer.status_code != 200:
                    raise Transient(f"the server answered {answer.status_code} with another range")
            elif answer.status_code == 416:
                raise Transient("the server answered 416 to a request without a range")
            for chunk in answer.iter_bytes():
                self.clock.check(file.path)
                try:
                    partial.write(chunk)
                except ValueError as error:
                    self._restart(partial)
                    raise Transient(f"the server sent {error}") from None
                self.transfers.advance(len(chunk))
        if not partial.is_whole():
            come = f"{partial.size:,} of {file.num_bytes:,} bytes"
            raise Transient(f"the connection ended after {come}")


def _continues(answer: Any, partial: PartialFile) -> bool:
    """Return True if a 206 answer starts exactly where we stopped, and is of the same file."""
    span = answer.headers.get("content-range", "")
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", span.strip())
    return (
        answer.status_code == 206
        and match is not None
        and int(match[1]) == partial.size
        and match[3] in ("*", str(partial.file.num_bytes))
        and answer.headers.get("content-encoding", "identity") == "identity"
    )
