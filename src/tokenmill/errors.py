"""Everything tokenmill raises on purpose.

Wrong arguments raise ValueError or TypeError instead; both happen before any file is touched.
"""


class TokenmillError(Exception):
    """`message` says what is wrong, with the value; `hint` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions travel between processes; keyword arguments must come along.
        return _rebuild, (type(self), self.__dict__)


def _rebuild(kind: type[TokenmillError], state: dict[str, object]) -> TokenmillError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class FormatError(TokenmillError):
    """A file is not what it should be."""

    exit_code = 12


class NotADatasetError(FormatError):
    """No manifest here, or nothing that any known format claims."""

    exit_code = 10


class TruncatedShardError(FormatError):
    """A file is shorter than its manifest or header says."""


class CorruptShardError(FormatError):
    """The bytes of a file are not the ones its manifest names."""


class UnsupportedVersionError(FormatError):
    """Written by a newer tokenmill."""


class MismatchError(TokenmillError):
    """Two things do not belong together."""

    exit_code = 13


class TokenizerMismatchError(MismatchError):
    """Ids of one tokenizer are about to be read with another."""


class OrderMismatchError(MismatchError):
    """A resume state belongs to another order or other data."""


class SettingsMismatchError(MismatchError):
    """The folder holds a preparation of other inputs or with other settings."""


class PrepareError(TokenmillError):
    """A task of a preparation failed; `source` names the file it was reading."""

    def __init__(self, message: str, *, hint: str | None = None, source: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source = source


class BadInputError(PrepareError):
    """A document that cannot be read, or is not text."""


class LockedError(TokenmillError):
    """Another process writes here."""

    exit_code = 11


class DownloadError(TokenmillError):
    """A file could not be fetched whole and unchanged."""


class UploadError(TokenmillError):
    """A dataset could not be pushed."""


class MissingExtraError(TokenmillError, ImportError):
    """An optional package is not installed."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}", hint=f'pip install "tokenmill[{extra}]"'
        )


class Stopped(TokenmillError):  # noqa: N818 - an event, not a fault
    """A signal ended the work; the same command resumes it."""

    exit_code = 75
