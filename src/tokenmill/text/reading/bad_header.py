"""Files with columns that cannot be read at all: no header, or none that holds the text.

With `on_bad_input` such a file is an error, or counts as one document that was dropped.
"""

from tokenmill.text.inputs.sources import Source
from tokenmill.text.reading.chunks import Chunk, ReadRules, bad_input

NO_FIELD, NO_COLUMN = "missing field", "missing column"
NAME_COLUMN = "name the column that holds the text with --text_field"


class BadHeaderError(Exception):
    """A file whose header says that no row of it can be read."""

    def __init__(self, reason: str, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.reason, self.what, self.hint = reason, what, hint


def without_documents(
    bad: BadHeaderError, bytes_in: int, source: Source, rules: ReadRules, *, first: bool = True
) -> Chunk:
    """The error, or what stands for a unit of the file; the `first` counts it."""
    if rules.on_bad_input == "error":
        raise bad_input(source, "", bad.what, bad.hint) from None
    chunk = Chunk([], bytes_in=bytes_in)
    if first:
        chunk.leave_out(bad.reason, "file", 0)
    return chunk
