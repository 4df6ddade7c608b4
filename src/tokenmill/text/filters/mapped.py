"""What a function of the user gets and returns: `Documents` and `Mapped`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Documents:
    """Some documents."""

    texts: list[str]
    fields: Mapping[str, Sequence[Any]]
    """Facts of the documents, by name: `path` of whole files, and fields that are kept."""


@dataclass(frozen=True)
class Mapped:
    """Texts, and what is to be said about them; a list has one entry for each document."""

    texts: Sequence[str | None]
    """The text of each document, as it was or changed; None drops it."""
    reasons: Sequence[str | None] | None = None
    """Why a document is dropped, in a few words: they are counted in the accounts."""
    values: Sequence[float | None] | None = None
    """A number that goes with it, such as a score; `show --removed` prints it."""
    facts: Mapping[str, Sequence[Any]] | None = None
    """Facts to be kept with the documents, by name."""
