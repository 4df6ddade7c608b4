"""What a format says about some files, in one shape for all formats."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import MismatchError
from tokenmill.tokenfiles.token_file import Lazy, TokenFile


@dataclass(frozen=True)
class Ask:
    """What the caller knows that the files may not say."""

    dtype: np.dtype[Any] | None = None
    beside: dict[Path, dict[str, Any]] = field(default_factory=dict)
    """Files already read once for all files of a folder."""

    def agreed(self, dtype: np.dtype[Any], path: Path) -> np.dtype[Any]:
        """The dtype that a file states; an argument that says otherwise is refused."""
        if self.dtype is not None and self.dtype != dtype:
            asked = self.dtype.name
            raise MismatchError(
                f"{path} holds {dtype.name} by its own word, but {asked} was asked for",
                hint=f"leave dtype out, or convert the data with --to-dtype {asked}",
            )
        return dtype


@dataclass(frozen=True)
class Found:
    """Some files of one format, as shards with what is known about their tokens."""

    format: str
    files: tuple[TokenFile, ...]
    vocab_size: int | None = None
    end_of_text_id: int | None = None
    end_of_text_comes: str | None = None
    """`after` or `before` each document."""
    tokenizer: str | None = None
    """A name that is bundled, so that loading it needs no network."""
    tokenizer_state: Lazy | None = None
    """Reads the bytes of a tokenizer_state.json; those that a manifest names are compared."""
    tokenizer_fingerprint: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """What else the files say, for people: JSON values."""

    def with_files(self, files: list[TokenFile]) -> "Found":
        """The same, of other files."""
        return replace(self, files=tuple(files))


INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


def token_dtype(value: object) -> np.dtype[Any]:
    """A dtype for token ids from a name such as "uint16"; anything but an integer is refused."""
    try:
        dtype = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in INTEGERS or dtype.newbyteorder("<") != dtype:
        known = ", ".join(INTEGERS)
        raise ValueError(f"dtype {value!r} is none of token ids (little-endian {known})")
    result: np.dtype[Any] = dtype.newbyteorder("<")
    return result
