"""What we ask of huggingface_hub: the commit of a revision, its files, the bytes of one file.

Repositories, errors, tokens, addresses and connections are huggingface_hub's. The bytes are read
from its session rather than by `hf_hub_download`, which knows neither our deadline nor Ctrl-C, and
follows a redirect to plain http.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from tokenmill.base.atomic import new_file
from tokenmill.base.human import one_line, redact
from tokenmill.base.retry import TRANSIENT_STATUS, RetryClock, Transient, seconds_asked_for
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError, MissingExtraError
from tokenmill.hub.remote_files import HubFile
from tokenmill.version import __version__

T = TypeVar("T")
# What huggingface_hub raises when an answer is not the JSON it expects.
_NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
# The hub's code of an error -> what it means, and what helps.
_REFUSALS = {
    "GatedRepo": ("access is gated", f"accept its conditions at {{page}}, then {_LOGIN}"),
    "RevisionNotFound": ("there is no such revision", None),
    "EntryNotFound": ("there is no such file", None),
    "RepoNotFound": (
        "there is no such {kind} repository, or it is private",
        f"check the name; for a private one {_LOGIN}",
    ),
}
_BY_STATUS = dict.fromkeys((401, 404), _REFUSALS["RepoNotFound"])
_LOCAL_HOST = re.compile(r"localhost|::1|127(\.\d{1,3}){3}")


class Unreachable(DownloadError):  # noqa: N818 - a state, which may not matter
    """The hub was not asked (offline) or did not answer; what is on disk may still do."""


def hub_package() -> Any:
    """huggingface_hub, or the error that says how to install it."""
    try:
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise MissingExtraError(
            "the Hugging Face hub", package="huggingface_hub", extra="hf"
        ) from None
    return huggingface_hub


def is_offline() -> bool:
    """Return True if HF_HUB_OFFLINE forbids the network, as it is set now or was at the import."""
    now = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}
    return now or bool(hub_package().constants.HF_HUB_OFFLINE)


class Hub:
    """One repository at one revision on one hub (`HF_ENDPOINT`), with one token."""

    def __init__(
        self,
        repo_id: str,
        revision: str,
        *,
        clock: RetryClock,
        token: str | bool | None = None,
        kind: str = "dataset",
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        package = hub_package()
        try:
            package.utils.validate_repo_id(repo_id)
        except ValueError as error:
            why = redact(str(error))
            raise ValueError(f"{repo_id!r} is not a repository name: {why}") from None
        endpoint = os.environ.get("HF_ENDPOINT") or package.constants.ENDPOINT
        _refuse_plain_http(endpoint)
        self.repo_id = repo_id
        self.kind = kind
        self.revision = revision
        self.endpoint = endpoint.rstrip("/")
        self.clock = clock
        self._say = say
        self._caller = {
            "token": token,
            "library_name": "tokenmill",
            "library_version": __version__,
        }

    @functools.cached_property
    def api(self) -> Any:
        """The calls to the hub; importing them takes as long as all else together."""
        return hub_package().HfApi(endpoint=self.endpoint, **self._caller)

    def commit(self) -> str:
        """The commit that the revision names now."""
        options: dict[str, Any] = {"repo_type": self.kind, "timeout": self.clock.retry.timeout}
        info = self.ask(self.api.repo_info, self.repo_id, revision=self.revision, **options)
        if not re.fullmatch("[0-9a-f]{40}", commit := str(info.sha)):
            raise DownloadError(f"{self}: the hub names no commit for it")
        return commit

    def files(self, commit: str) -> list[HubFile]:
        """Every file of a commit, with its size and its hash."""

        def all_pages() -> list[HubFile]:
            options = {"recursive": True, "revision": commit, "repo_type": self.kind}
            return [
                HubFile(entry.path, entry.lfs.size, f"sha256:{entry.lfs.sha256}")
                if entry.lfs
                else HubFile(entry.path, entry.size, f"git:{entry.blob_id}")
                for entry in self.api.list_repo_tree(self.repo_id, **options)
                if hasattr(entry, "blob_id")  # a folder has none
            ]

        return self.ask(all_pages)

    def fetch(
        self, file: HubFile, commit: str, target: Path, advance: Callable[[int], None]
    ) -> None:
        """Bring a file of a commit to `target`, where it appears when its bytes are right.

        `advance` is told how many bytes have arrived, below 0 where they have to come again.
        """
        about = f"{file.path} of {self} ({commit[:12]})"
        try:
            self.ask(self._receive, file, commit, target, advance, about=about)
        except OSError as error:
            raise DownloadError(
                f"{file.path} ({file.num_bytes:,} bytes): {error.strerror}",
                hint=f"see that {target.parent} can be written to and has space; {RESUME_HINT}",
            ) from None

    def _receive(
        self, file: HubFile, commit: str, target: Path, advance: Callable[[int], None]
    ) -> None:
        """Try once to fetch a file; Transient if its bytes are not those that the hub lists."""
        size = 0
        hasher = file.hasher()
        try:
            with new_file(target, durable=True) as out, self._body(file.path, commit) as answer:
                for chunk in answer.iter_bytes():
                    self.clock.check(file.path)
                    size += len(chunk)
                    advance(len(chunk))
                    if size > file.num_bytes:
                        break
                    hasher.update(chunk)
                    out.write(chunk)
                if size != file.num_bytes or not file.digest.endswith(hasher.hexdigest()):
                    raise Transient(
                        f"the {size:,} bytes that arrived are not the {file.num_bytes:,} that the "
                        f"hub lists ({file.digest})"
                    )
        except BaseException:
            advance(-size)
            raise

    @contextlib.contextmanager
    def _body(self, path: str, commit: str, **extra: str) -> Iterator[Any]:
        package = hub_package()
        headers = {**package.utils.build_hf_headers(**self._caller), **extra}
        headers["Accept-Encoding"] = "identity"
        options = {"headers": headers, "timeout": self.clock.retry.timeout}
        kind = "datasets/" if self.kind == "dataset" else ""
        address = f"{self.endpoint}/{kind}{self.repo_id}/resolve/{commit}/{quote(path)}"
        with package.utils.get_session().stream("GET", address, **options) as answer:
            for hop in (*answer.history, answer):
                _refuse_plain_http(str(hop.url))
            if answer.status_code != (206 if extra else 200):
                # A redirect leads to a store with signed addresses, which expire: ask again.
                signed = bool(answer.history) and answer.status_code in (401, 403, 404)
                raise self._failure(answer, f"{path} of {self}", again=signed)
            yield answer

    def read(self, path: str, commit: str, start: int, stop: int) -> tuple[bytes, int]:
        """Try once to read the bytes start..stop of a file; return them and the file's size."""
        with self._body(path, commit, Range=f"bytes={start}-{stop - 1}") as answer:
            data: bytes = answer.read()
            sent, _, size = answer.headers.get("content-range", "").partition("/")
        if len(data) != stop - start or sent != f"bytes {start}-{stop - 1}":
            raise Transient(f"{len(data):,} bytes arrived of the {stop - start:,} asked for")
        return data, int(size)

    def __str__(self) -> str:
        return f"{self.repo_id} at revision {self.revision}"

    def ask(self, call: Callable[..., T], *args: Any, about: str = "", **options: Any) -> T:
        """The result of a call to the hub, made again while another try may help."""
        about = about or str(self)
        if is_offline():
            raise Unreachable(
                f"{about}: HF_HUB_OFFLINE is set, the hub was not asked",
                hint="unset HF_HUB_OFFLINE",
            )
        errors = hub_package().errors
        failures = 0
        while True:
            try:
                return call(*args, **options)
            except Transient as error:
                failure: Exception = error
            except errors.HfHubHTTPError as error:
                failure = self._failure(error.response, about)
            except errors.HTTPError as error:  # httpx's base: connect, read, timeout, protocol
                failure = Transient(f"{type(error).__name__}: {redact(str(error)) or 'no answer'}")
            except _NOT_UNDERSTOOD as error:
                what = f"{type(error).__name__}: {one_line(str(error)[:200])}"
                failure = DownloadError(
                    f"{about}: the answer of the hub cannot be understood ({what})",
                    hint="try again later; if HF_ENDPOINT is set, check that it is a hub",
                )
            # Raised out here, so that no traceback carries the original with address and headers.
            if not isinstance(failure, Transient):
                raise failure
            failures += 1
            try:
                self.clock.pause(about, failures, failure)
            except DownloadError as error:
                raise Unreachable(error.message, hint=error.hint) from None
            self._say(f"{about}: {failure}; trying again")

    def _failure(self, answer: Any, what: str, *, again: bool = False) -> Exception:
        """The error for an answer of 4xx or 5xx: Transient if it may pass (`again`: it does)."""
        status = answer.status_code
        if again or status in TRANSIENT_STATUS:
            return Transient(f"the server answered {status}", seconds_asked_for(answer.headers))
        known = _REFUSALS.get(answer.headers.get("x-error-code", "")) or _BY_STATUS.get(status)
        if known is None:
            said = redact(answer.headers.get("x-error-message", ""))[:300]
            why = "access was refused" if status == 403 else "the hub answered"
            hint = _LOGIN if status == 403 else None
            return DownloadError(f"{what}: {why} {status} {said}".rstrip(), hint=hint)
        why, hint = known
        folder = "" if self.kind == "model" else f"{self.kind}s/"
        page = redact(f"{self.endpoint}/{folder}{self.repo_id}")
        why = why.format(kind=self.kind)
        return DownloadError(f"{what}: {why} ({status})", hint=hint and hint.format(page=page))


def _refuse_plain_http(address: str) -> None:
    """Bytes and tokens travel over https, or stay on this machine."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and _LOCAL_HOST.fullmatch(parts.hostname or "")
    if parts.scheme != "https" and not local:
        hint = "set HF_ENDPOINT to an https address of the hub"
        raise DownloadError(f"{redact(address)} is not https", hint=hint)
