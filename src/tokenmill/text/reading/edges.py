"""How a text may be left open: at a line end, inside an over-long line, or not at all."""

from enum import Enum


class Edge(Enum):
    """The kind of place where a document was cut between two chunks or two units."""

    NONE = "none"
    """No cut: the document ends (or begins) here."""
    LINE = "line"
    """Right after a newline."""
    INSIDE = "inside"
    """Inside a line of more than `long_line` bytes, at a place the tokenizer's `cuts` allow."""
