"""One file from the hub: resume, retry, check, and only then its final name."""

import re
from pathlib import Path
from typing import Any

from tokenmill.base.retry import RetryClock, Transient
from tokenmill.errors import DownloadError
from tokenmill.formats.llmc import promised
from tokenmill.hub.hub_client import Hub
from tokenmill.hub.partial import Partial, out_of_space
from tokenmill.hub.remote_files import RemoteFile
from tokenmill.hub.transfers import Transfers

_WRONG_CONTENT_TRIES = 2  # a file that arrived whole but wrong is fetched once more


def fetch(
    hub: Hub,
    file: RemoteFile,
    commit: str,
    partials: Path,
    clock: RetryClock,
    transfers: Transfers,
) -> Partial:
    """Bring one file here and return it sealed: complete, checked, on disk, not yet published."""
    partial = Partial(file, partials)
    try:
        _fill(partial, hub, commit, clock, transfers)
        _check_llmc_header(partial, hub)
        partial.seal()
    except OSError as error:
        full = out_of_space(error, file)
        if full is None:
            raise
        partial.discard()
        raise full from None
    finally:
        partial.close()
    return partial


def _fill(partial: Partial, hub: Hub, commit: str, clock: RetryClock, transfers: Transfers) -> None:
    file = partial.file
    what = f"{file.path} of {hub} ({commit[:12]})"
    transfers.start(file, partial.size)
    failures = wrong = 0
    while True:
        before = partial.size
        try:
            if not partial.is_whole():
                _read_body(partial, hub, commit, clock, transfers)
            if partial.is_right():
                return
            if not partial.resumed_from:  # else the fault may be in what an earlier run left
                wrong += 1
            if wrong == _WRONG_CONTENT_TRIES:
                partial.discard()
                raise DownloadError(
                    f"{what}: the bytes that arrived, twice, are not the ones the hub lists "
                    f"({file.digest})",
                    hint="nothing was kept; a proxy or a mirror may be changing the file",
                )
            partial.restart()
            transfers.start(file, 0)
        except Transient as reason:
            failures = 1 if partial.size > before else failures + 1
            transfers.say(f"{file.path}: {reason}; trying again")
            clock.pause(what, failures, reason)


def _read_body(
    partial: Partial, hub: Hub, commit: str, clock: RetryClock, transfers: Transfers
) -> None:
    """Read one answer to its end; Transient if it is not the rest of the file."""
    file = partial.file
    with hub.body(file, commit, partial.size) as answer:
        if partial.size and not _continues(answer, partial):
            # Not the range that was asked for: what is here may not be continued with it.
            partial.restart()
            transfers.start(file, 0)
            if answer.status_code != 200:
                raise Transient(f"the server answered {answer.status_code} with another range")
        elif answer.status_code == 416:
            raise Transient("the server answered 416 to a request without a range")
        for chunk in answer.iter_bytes():
            clock.check(file.path)
            try:
                partial.write(chunk)
            except ValueError as error:
                partial.restart()
                transfers.start(file, 0)
                raise Transient(f"the server sent {error}") from None
            transfers.advance(file, len(chunk))
    if not partial.is_whole():
        raise Transient(f"the connection ended after {partial.size:,} of {file.bytes:,} bytes")


def _continues(answer: Any, partial: Partial) -> bool:
    """Whether a 206 answer starts exactly where we stopped, and is of the same file."""
    span = answer.headers.get("content-range", "")
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", span.strip())
    return (
        answer.status_code == 206
        and match is not None
        and int(match[1]) == partial.size
        and match[3] in ("*", str(partial.file.bytes))
        and answer.headers.get("content-encoding", "identity") == "identity"
    )


def _check_llmc_header(partial: Partial, hub: Hub) -> None:
    """A shard with llm.c's header must have the size that the header says."""
    file = partial.file
    if not file.path.endswith(".bin") or file.bytes < 12:
        return
    header = promised(partial.head(12))
    if header is None:
        return
    num_tokens, expected = header
    if file.bytes != expected:
        partial.discard()
        raise DownloadError(
            f"{file.path} of {hub}: its llm.c header promises {num_tokens:,} tokens, {expected:,} "
            f"bytes, but the file has {file.bytes:,}",
            hint="the file is damaged in the repository; choose others with --pattern",
        )
