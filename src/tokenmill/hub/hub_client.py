"""What we ask of huggingface_hub: the commit of a revision, its files, the body of one file.

Repositories, errors, tokens and addresses are huggingface_hub's. The bodies we read ourselves, over
its connection pool: its own `hf_hub_download` checks sizes but no hashes, gives a file its final
name before anyone could look at it, and starts a killed download again from the first byte.
"""

import contextlib
import ipaddress
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from tokenmill.base.redact import redact
from tokenmill.base.retry import TRANSIENT_STATUS, RetryClock, Transient, seconds_asked_for
from tokenmill.errors import DownloadError, MissingExtraError
from tokenmill.hub.remote_files import HubFile
from tokenmill.version import __version__

T = TypeVar("T")


class Unreachable(DownloadError):  # noqa: N818 - a state, which may not matter
    """The hub was not asked (offline) or did not answer; what is on disk may still do."""


def hub_package() -> Any:
    """huggingface_hub, or the error that says how to install it."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise MissingExtraError(
            "the Hugging Face hub", package="huggingface_hub", extra="hf"
        ) from None
    return huggingface_hub


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids the network, as it is set now."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}


class Hub:
    """One repository at one revision on one hub (`HF_ENDPOINT`), with one token."""

    def __init__(
        self, repo_id: str, revision: str, *, clock: RetryClock, token: str | bool | None = None
    ) -> None:
        package = hub_package()
        try:
            package.utils.validate_repo_id(repo_id)
        except ValueError as error:
            raise ValueError(
                f"{repo_id!r} is not a repository name: {redact(str(error))}"
            ) from None
        self.repo_id = repo_id
        self.revision = revision
        endpoint = os.environ.get("HF_ENDPOINT") or package.constants.ENDPOINT
        _refuse_plain_http(endpoint)
        self.endpoint = endpoint.rstrip("/")
        self._token = token
        self._clock = clock
        self.api = package.HfApi(
            endpoint=self.endpoint,
            token=token,
            library_name="tokenmill",
            library_version=__version__,
        )

    def commit(self) -> str:
        """The commit that the revision names now."""
        info = self.ask(
            lambda: self.api.dataset_info(
                self.repo_id, revision=self.revision, timeout=self._clock.retry.timeout
            )
        )
        if not isinstance(info.sha, str) or not is_commit(info.sha):
            raise DownloadError(f"{self}: the hub names no commit for it")
        return info.sha

    def files(self, commit: str) -> list[HubFile]:
        """Every file of a commit, with its size and its hash."""
        tree = self.ask(
            lambda: list(
                self.api.list_repo_tree(
                    self.repo_id, recursive=True, revision=commit, repo_type="dataset"
                )
            )
        )
        # Folders have no blob_id.
        return [_as_remote_file(entry) for entry in tree if hasattr(entry, "blob_id")]

    @contextlib.contextmanager
    def body(self, file: HubFile, commit: str, start: int) -> Iterator[Any]:
        """The open answer to a GET of a file from byte `start`; status 200, 206 or 416.

        Raises Transient where another try may help, else DownloadError.
        """
        package = hub_package()
        address = package.hf_hub_url(
            self.repo_id, file.path, repo_type="dataset", revision=commit, endpoint=self.endpoint
        )
        headers = package.utils.build_hf_headers(
            token=self._token, library_name="tokenmill", library_version=__version__
        )
        headers["Accept-Encoding"] = "identity"  # ranges and lengths count bytes of the file
        if start:
            headers["Range"] = f"bytes={start}-"
        pool = package.utils.get_session()
        with (
            self._network_errors(),
            pool.stream(
                "GET", address, headers=headers, timeout=self._clock.retry.timeout
            ) as answer,
        ):
            for hop in (*answer.history, answer):
                _refuse_plain_http(str(hop.url))
            if answer.status_code not in (200, 206, 416):
                # A redirect leads to a store with signed addresses, which expire: ask again.
                signed = bool(answer.history) and answer.status_code in (401, 403, 404)
                if signed or answer.status_code in TRANSIENT_STATUS:
                    raise _transient(answer)
                answer.read()
                self._raise_for(answer, file.path)
            yield answer

    def __str__(self) -> str:
        return f"{self.repo_id} at revision {self.revision}"

    def ask(self, call: Callable[[], T]) -> T:
        """A question to the API, asked again while another try may help."""
        if is_offline():
            raise Unreachable(f"{self}: HF_HUB_OFFLINE is set, the hub was not asked")
        failures = 0
        while True:
            try:
                with self._network_errors():
                    return call()
            except Transient as reason:
                failures += 1
                try:
                    self._clock.pause(str(self), failures, reason)
                except DownloadError as error:
                    raise Unreachable(error.message, hint=error.hint) from None

    @contextlib.contextmanager
    def _network_errors(self) -> Iterator[None]:
        """Turn huggingface_hub's and httpx's errors into Transient or DownloadError."""
        errors = hub_package().errors
        failure: Transient | None = None
        refused: Any = None
        try:
            yield
        except errors.OfflineModeIsEnabled:
            raise Unreachable(f"{self}: HF_HUB_OFFLINE is set, the hub was not asked") from None
        except errors.HfHubHTTPError as error:
            if error.response.status_code in TRANSIENT_STATUS:
                failure = _transient(error.response)
            else:
                refused = error.response
        except errors.HTTPError as error:  # httpx's base: connect, read, timeout, protocol
            text = redact(str(error)) or "no answer"
            failure = Transient(f"{type(error).__name__}: {text}")
        # Raised out here, so that no traceback carries the original with its address and headers.
        if failure is not None:
            raise failure
        if refused is not None:
            self._raise_for(refused)

    def _raise_for(self, answer: Any, path: str | None = None) -> NoReturn:
        """The error that an answer of 4xx or so means, naming repository, file and revision."""
        code, status = answer.headers.get("x-error-code", ""), answer.status_code
        said = redact(answer.headers.get("x-error-message", ""))[:300]
        login = "log in with `hf auth login`, or set HF_TOKEN"
        why, hint = f"the hub answered {status} {said}".rstrip(), None
        if code == "GatedRepo":
            page = redact(f"{self.endpoint}/datasets/{self.repo_id}")
            why = f"access is gated ({status})"
            hint = f"accept its conditions at {page}, then {login}"
        elif code == "RevisionNotFound":
            why = f"there is no such revision ({status})"
        elif code == "EntryNotFound":
            why = f"there is no such file ({status})"
        elif code == "RepoNotFound" or status in (401, 404):
            why = f"there is no such dataset repository, or it is private ({status})"
            hint = f"check the name; for a private one {login}"
        elif status == 403:
            why, hint = f"access was refused ({status}) {said}".rstrip(), login
        raise DownloadError(f"{path} of {self}: {why}" if path else f"{self}: {why}", hint=hint)


def _transient(answer: Any) -> Transient:
    return Transient(f"the server answered {answer.status_code}", seconds_asked_for(answer.headers))


def _as_remote_file(entry: Any) -> HubFile:
    lfs = entry.lfs
    if lfs is not None:
        return HubFile(entry.path, int(lfs.size), f"sha256:{lfs.sha256}")
    return HubFile(entry.path, int(entry.size), f"git:{entry.blob_id}")


def is_commit(text: str) -> bool:
    """Whether this is the name of a commit, not of a branch or a tag."""
    return len(text) == 40 and not set(text) - set("0123456789abcdef")


def _refuse_plain_http(address: str) -> None:
    """Bytes and tokens travel over https, or stay on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname)):
        return
    raise DownloadError(
        f"{redact(address)} is not https", hint="set HF_ENDPOINT to an https address of the hub"
    )


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
